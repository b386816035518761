//! Drivers on a simulated service and clock.

mod mixed;
mod model;
mod scenarios;
mod world;
