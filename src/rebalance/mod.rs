//! Who of a consumer group reads which partition (05 §4–§7): strategies and plans, which are pure functions, the same
//! for every member, and the driver that carries plans out.
//!
//! | part | what it does |
//! |---|---|
//! | [`LoadBalanceStrategy`] | the seam, and what it is asked |
//! | [`RangeStrategy`], [`ConsistentHashStrategy`] | the reference's two: bit-exact, for groups with Java members |
//! | [`CircleStrategy`], [`ConfiguredStrategy`], [`MachineRoomStrategy`] | others, for groups of Rust members only |
//! | [`Plan`] | from the group and what a member owns to what it must do |
//! | [`Driver`] | keeps a member in its group and carries its plans out |
//! | [`Assignee`] | the seam to whoever reads what a member owns |
//! | [`java_order`] | the order in which every member sorts |

mod assignee;
mod circle;
mod configured;
mod consistent_hash;
pub mod driver;
mod machine_room;
mod order;
mod plan;
mod range;
#[cfg(test)]
pub(crate) mod simulated;
mod strategy;
#[cfg(test)]
mod testing;

pub use assignee::Assignee;
pub use circle::CircleStrategy;
pub use configured::ConfiguredStrategy;
pub use consistent_hash::ConsistentHashStrategy;
pub use driver::{Driver, DriverOptions, DriverState, JoinError, Left, Membership};
pub use machine_room::MachineRoomStrategy;
pub use order::{java_order, sorted_consumers, sorted_partitions};
pub use plan::{Plan, TopicGroup};
pub use range::RangeStrategy;
pub use strategy::{Group, LoadBalanceStrategy};
