//! Who of a consumer group reads which partition (05 §4–§7): pure functions, the same for every member.
//!
//! | part | what it does |
//! |---|---|
//! | [`LoadBalanceStrategy`] | the seam, and what it is asked |
//! | [`RangeStrategy`], [`ConsistentHashStrategy`] | the reference's two: bit-exact, for groups with Java members |
//! | [`CircleStrategy`], [`ConfiguredStrategy`], [`MachineRoomStrategy`] | others, for groups of Rust members only |
//! | [`Assignee`] | the seam to whoever reads what a member owns |
//! | [`java_order`] | the order in which every member sorts |

mod assignee;
mod circle;
mod configured;
mod consistent_hash;
mod machine_room;
mod order;
mod range;
mod strategy;
#[cfg(test)]
mod testing;

pub use assignee::Assignee;
pub use circle::CircleStrategy;
pub use configured::ConfiguredStrategy;
pub use consistent_hash::ConsistentHashStrategy;
pub use machine_room::MachineRoomStrategy;
pub use order::{java_order, sorted_consumers, sorted_partitions};
pub use range::RangeStrategy;
pub use strategy::{Group, LoadBalanceStrategy};
