//! Commands and responses: decoder and encoder in one place, shared by broker and client (01).
