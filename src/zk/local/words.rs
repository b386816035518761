//! The operator's four-letter words.

use super::engine::Figures;
use super::limits;

/// A word that is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Word {
    Ruok,
    Stat,
    Srvr,
    Mntr,
    Conf,
    Isro,
}

impl Word {
    /// The word that a connection begins with in the place of a length.
    pub(super) fn of(bytes: [u8; 4]) -> Option<Self> {
        Some(match &bytes {
            b"ruok" => Self::Ruok,
            b"stat" => Self::Stat,
            b"srvr" => Self::Srvr,
            b"mntr" => Self::Mntr,
            b"conf" => Self::Conf,
            b"isro" => Self::Isro,
            _ => return None,
        })
    }

    /// The answer, in the form of ZooKeeper's.
    pub(super) fn answer(self, figures: &Figures) -> String {
        let Figures { zxid, nodes, bytes, ephemerals, sessions, watches, connections } = figures;
        let version = concat!("metaq ", env!("CARGO_PKG_VERSION"));
        match self {
            Self::Ruok => "imok".to_owned(),
            Self::Isro => "rw".to_owned(),
            Self::Stat | Self::Srvr => {
                format!(
                    "Zookeeper version: {version}\nConnections: {connections}\nSessions: {sessions}\nZxid: {zxid:#x}\n\
                     Mode: standalone\nNode count: {nodes}\n"
                )
            }
            Self::Mntr => format!(
                "zk_version\t{version}\nzk_server_state\tstandalone\nzk_num_alive_connections\t{connections}\n\
                 zk_global_sessions\t{sessions}\nzk_znode_count\t{nodes}\nzk_watch_count\t{watches}\n\
                 zk_ephemerals_count\t{ephemerals}\nzk_approximate_data_size\t{bytes}\n"
            ),
            Self::Conf => format!(
                "minSessionTimeout={}\nmaxSessionTimeout={}\nmaxCnxns={}\njute.maxbuffer={}\n",
                limits::SESSION_TIMEOUT_MS.start(),
                limits::SESSION_TIMEOUT_MS.end(),
                limits::MAX_CONNECTIONS,
                limits::MAX_FRAME_BYTES,
            ),
        }
    }
}
