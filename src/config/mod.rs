//! `server.ini`: reading, checking, effective values (03 §1–6).
