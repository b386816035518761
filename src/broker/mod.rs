//! The broker: listener, connections, command processors, life cycle.
