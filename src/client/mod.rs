//! Connections to a broker and discovery through ZooKeeper: the seed of the client library.
