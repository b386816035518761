//! `server.ini`: reading, checking, effective values (03 §1–6).
//!
//! Bytes come in, values or *all* problems of the file go out; nothing here keeps state or does more IO than reading
//! the one file. The way of a file:
//!
//! 1. `ini`: text to sections of options with their lines, as the reference's parser (ini4j) reads it.
//! 2. `system`, `zookeeper`, `metaq`, `topics`: options to typed values, each key checked in one place; numbers are
//!    expressions (`expr`).
//!    `cron` reads when expired segments are looked for, and knows when that is.
//! 3. [`ServerConfig`]: the whole, immutable and comparable part by part.
//! 4. [`EffectiveConfig`]: the values in force, for people (INI) and programs (JSON).
//! 5. [`Changes`]: what another file means for a broker that runs.
//!
//! Keys that only this broker knows live in the section `[metaq]`, which the Java broker ignores.

mod changes;
mod cron;
mod environment;
mod error;
mod expr;
mod host;
mod ini;
mod keys;
mod metaq;
mod pattern;
mod policy;
mod reader;
mod server;
mod show;
mod system;
mod topics;
mod value;
mod zookeeper;

pub use changes::{AddedTopic, ChangedKey, ChangedTopic, Changes};
pub use cron::{CronExpression, CronField, CronProblem, InvalidCron, local_text, local_zone, zone_name};
pub use environment::Environment;
pub use error::{ConfigError, ConfigErrors, ConfigProblem, MAX_FILE_BYTES, MAX_PROBLEMS, Warning};
pub use expr::{ExprError, evaluate};
pub use host::{InvalidHost, check_host};
pub use ini::{IniError, IniFile, IniOption, Section};
pub use keys::{METAQ_KEYS, SYSTEM_KEYS, TOPIC_KEYS, ZOOKEEPER_KEYS};
pub use metaq::MetaqConfig;
pub use pattern::TopicPattern;
pub use policy::{DeletePolicy, InvalidDeletePolicy};
pub use server::ServerConfig;
pub use show::EffectiveConfig;
pub use system::SystemConfig;
pub use topics::{Admission, TopicConfig, TopicSettings, Topics};
pub use value::Value;
pub use zookeeper::{InvalidRoot, ZooKeeperConfig, normalize_root};
