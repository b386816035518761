#![allow(missing_docs, clippy::all)]
use super::*;
use crate::id::*;
use crate::zk::format::StoredOffset;
use crate::zk::*;
use futures_core::future::BoxFuture;
use std::sync::Arc;
#[derive(Debug)]
pub struct NoStorage;
impl OffsetStorage for NoStorage {
    fn load<'a>(
        &'a self,
        _: &'a GroupName,
        _: &'a TopicPartition,
    ) -> BoxFuture<'a, Result<Option<StoredOffset>, StorageError>> {
        Box::pin(async { Ok(None) })
    }
    fn commit<'a>(&'a self, _: &'a GroupName, c: &'a [OffsetCommit]) -> BoxFuture<'a, Vec<Result<(), CommitError>>> {
        Box::pin(async { c.iter().map(|_| Ok(())).collect() })
    }
}
#[derive(Debug)]
pub struct SeenMessages;
impl SeenMessages {
    pub fn of_this_process() -> Arc<Self> {
        Arc::new(Self)
    }
    pub fn contains(&self, _: &GroupName, _: MessageId) -> bool {
        false
    }
    pub fn insert(&self, _: &GroupName, _: MessageId) {}
}
#[derive(Debug)]
pub struct FileOffsets;
impl FileOffsets {
    pub fn in_home() -> std::io::Result<NoStorage> {
        Ok(NoStorage)
    }
    pub fn open(_: impl AsRef<std::path::Path>) -> std::io::Result<NoStorage> {
        Ok(NoStorage)
    }
}
#[derive(Debug)]
pub struct ZooKeeperOffsets(Arc<dyn Coordinator>, Root);
impl ZooKeeperOffsets {
    pub fn new(c: Arc<dyn Coordinator>, r: Root, _: String) -> Self {
        Self(c, r)
    }
}
impl OffsetStorage for ZooKeeperOffsets {
    fn load<'a>(
        &'a self,
        g: &'a GroupName,
        of: &'a TopicPartition,
    ) -> BoxFuture<'a, Result<Option<StoredOffset>, StorageError>> {
        Box::pin(async move {
            match self.0.get(&self.1.offset(g, of)).await {
                Ok(n) => Ok(Some(StoredOffset::parse(&n.data)?)),
                Err(CoordinatorError::NoNode(_)) => Ok(None),
                Err(e) => Err(e.into()),
            }
        })
    }
    fn commit<'a>(&'a self, g: &'a GroupName, c: &'a [OffsetCommit]) -> BoxFuture<'a, Vec<Result<(), CommitError>>> {
        Box::pin(async move {
            let mut v = Vec::new();
            for c in c {
                let p = self.1.offset(g, &c.of);
                let d = c.offset.to_string();
                v.push(match self.0.set(&p, d.as_bytes(), None).await {
                    Ok(_) => Ok(()),
                    Err(CoordinatorError::NoNode(_)) => self
                        .0
                        .create(&p, d.as_bytes(), NodeKind::Persistent)
                        .await
                        .map_err(|e| CommitError::Failed(e.into())),
                    Err(e) => Err(CommitError::Failed(e.into())),
                });
            }
            v
        })
    }
}
