//! Drivers on a simulated service and clock.

mod faults;
mod mixed;
mod model;
mod scenarios;
mod standstill;
mod world;
