//! The exposition for Prometheus. Every value is sampled when it is asked for, so that none can drift and what belongs to a
//! removed topic is gone with it. `docs/metrics.md` explains each metric; names are stable.
//!
//! | part | tells of |
//! |---|---|
//! | `traffic` | commands, connections, the doors of this interface |
//! | `storage` | the commit log, disks, health |
//! | `partitions` | topics and partitions, the latter one by one up to a limit |
//! | `process` | memory, processor time and descriptors |
//! | `exposition` | the text format |
//!
//! Labels have values of closed sets, but for topics, partitions and data paths, which the configuration limits.

mod exposition;
mod partitions;
mod process;
mod storage;
mod traffic;

use std::time::UNIX_EPOCH;

use self::exposition::Exposition;
use crate::broker::BrokerControl;
use crate::zk::RegistrationState;

/// The type of the text.
pub(super) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The state of registration of a broker that keeps away from ZooKeeper.
const OFF: &str = "off";

/// Everything. `refused` is what the doors stopped.
pub(super) fn exposition(control: &BrokerControl, refused: &[(&'static str, u64)]) -> String {
    let mut out = Exposition::default();
    broker(control, &mut out);
    traffic::write(control, refused, &mut out);
    storage::write(control, &mut out);
    partitions::write(control, &mut out);
    process::write(&mut out);
    out.finish()
}

fn broker(control: &BrokerControl, out: &mut Exposition) {
    let labels = [("version", env!("CARGO_PKG_VERSION"))];
    out.gauges("metaq_build_info", "Always 1; the version of this program is a label.", [(labels, 1.0)]);
    let started = control.started_at().duration_since(UNIX_EPOCH).unwrap_or_default();
    out.gauge(
        "metaq_start_time_seconds",
        "When the broker began to serve, in seconds since 1970.",
        started.as_secs_f64(),
    );
    out.flag(
        "metaq_live",
        "Whether /healthz answers 200: 0 if only a restart can help.",
        control.reasons_to_restart().is_empty(),
    );
    out.flag(
        "metaq_ready",
        "Whether /readyz answers 200: registered or without ZooKeeper, taking puts, and not stopping.",
        control.reasons_not_ready().is_empty(),
    );
    let reload = control.last_reload();
    out.flag(
        "metaq_config_reload_refused",
        "Whether the last reload of the configuration was refused.",
        reload.as_ref().is_some_and(|reload| reload.refused.is_some()),
    );
    let reloaded = reload.and_then(|reload| reload.at.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
    out.gauge(
        "metaq_config_reload_time_seconds",
        "When the configuration was reloaded last, refused or not, in seconds since 1970; 0 before the first time.",
        reloaded.as_secs_f64(),
    );
    let state = control.registration().as_ref().map_or(OFF, RegistrationState::name);
    let states = [OFF].into_iter().chain(RegistrationState::NAMES);
    out.gauges(
        "metaq_registration_state",
        "Where the registration in ZooKeeper stands: 1 for the present state, 0 for all others.",
        states.map(|name| ([("state", name)], f64::from(u8::from(name == state)))),
    );
}
