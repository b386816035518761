//! The coordinator: the seam to ZooKeeper, node paths and formats, registration (04).
