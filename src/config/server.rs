//! A whole configuration file.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::environment::Environment;
use super::error::{ConfigError, ConfigErrors, MAX_FILE_BYTES, Problems, Warning};
use super::ini::IniFile;
use super::metaq::MetaqConfig;
use super::system::SystemConfig;
use super::topics::{TOPIC_PREFIX, TopicSettings, Topics};
use super::zookeeper::ZooKeeperConfig;

/// A checked configuration; immutable, comparable as a whole and part by part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerConfig {
    /// The file it was read from.
    pub path: Option<PathBuf>,
    /// CRC-32 of the bytes of the file, all 32 bits (03 §7); 0 if there is no file.
    pub checksum: u32,
    /// `[system]`.
    pub system: SystemConfig,
    /// `[zookeeper]`.
    pub zookeeper: ZooKeeperConfig,
    /// `[metaq]`.
    pub metaq: MetaqConfig,
    /// `[topic=…]` in the order of the file, at least one.
    pub topics: Topics,
    /// What is hardly meant but does no harm, in the order of the file.
    pub warnings: Vec<Warning>,
}

impl ServerConfig {
    /// Reads and checks a file.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, ConfigError> {
        let path = path.as_ref();
        let bytes = read_file(path)?;
        Ok(Self::parse(&bytes, Some(path), &Environment::detect())?)
    }

    /// Checks the content of a file; `path` is what errors and `stats config` name.
    pub fn parse(bytes: &[u8], path: Option<&Path>, environment: &Environment) -> Result<Self, ConfigErrors> {
        let path = path.map(Path::to_owned);
        let mut problems = Problems::default();
        let (file, unreadable) = IniFile::parse_readable(bytes);
        for error in unreadable {
            problems.unreadable(error.line, error.to_string());
        }
        for section in file.sections() {
            let known = ["system", "zookeeper", "metaq"].contains(&section.name());
            if !known && !section.name().starts_with(TOPIC_PREFIX) {
                let message = format!("section [{}] is unknown and ignored", super::reader::shortened(section.name()));
                problems.warn(section.line(), section.name(), message);
            }
        }
        let system = SystemConfig::read(file.section("system"), environment, &mut problems);
        let zookeeper = ZooKeeperConfig::read(file.section("zookeeper"), &mut problems);
        let metaq = MetaqConfig::read(file.section("metaq"), &mut problems);
        let topics = Topics::read(&file, &system, &mut problems);
        match problems.finish() {
            Ok(warnings) => {
                let checksum = if path.is_some() { crc32fast::hash(bytes) } else { 0 };
                Ok(Self { path, checksum, system, zookeeper, metaq, topics, warnings })
            }
            Err(errors) => Err(ConfigErrors { path, errors }),
        }
    }

    /// The values in force for a topic; `None` if it is not served.
    ///
    /// For a topic with a section its own, for one that a pattern admits those of `[system]`. Allocates nothing.
    pub fn topic(&self, name: &str) -> Option<&TopicSettings> {
        self.topics.admission(name).map(|admission| admission.settings())
    }
}

fn read_file(path: &Path) -> Result<Vec<u8>, ConfigError> {
    if path.as_os_str().is_empty() {
        return Err(ConfigError::BlankPath);
    }
    let failed = |source: io::Error| match source.kind() {
        io::ErrorKind::NotFound => ConfigError::NotFound(path.to_owned()),
        io::ErrorKind::IsADirectory => ConfigError::Directory(path.to_owned()),
        _ => ConfigError::Read { path: path.to_owned(), source },
    };
    let mut bytes = Vec::new();
    // not the length in the metadata: it is zero for pipes and others that can be read just as well
    File::open(path).and_then(|file| file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)).map_err(failed)?;
    if u64::try_from(bytes.len()).is_ok_and(|len| len > MAX_FILE_BYTES) {
        return Err(ConfigError::TooLarge(path.to_owned()));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests;
