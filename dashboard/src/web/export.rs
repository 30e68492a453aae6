//! Large answers to clients of any speed.
//!
//! A table of everything is some megabytes of text. Few of them are made at once, and one that a client has stopped
//! reading is thrown away, so slow clients hold little memory, and not for long.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use futures::Stream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

/// How many are under way at once.
const AT_ONCE: usize = 4;
/// How much of one is handed on at a time.
const PIECE: usize = 64 * 1024;
/// How long a client may read nothing.
const STALLED: Duration = Duration::from_secs(30);

/// The exports under way.
#[derive(Clone, Debug)]
pub struct Exports(Arc<Semaphore>);

impl Exports {
    /// None is under way.
    pub fn new() -> Self {
        Self(Arc::new(Semaphore::new(AT_ONCE)))
    }

    /// Begins one, unless as many are under way as may be.
    pub fn begin(&self) -> Option<Export> {
        Arc::clone(&self.0).try_acquire_owned().ok().map(Export)
    }
}

/// One of them. Over when it is dropped.
#[derive(Debug)]
pub struct Export(OwnedSemaphorePermit);

impl Export {
    /// Hands a text to a client, as fast as it reads. One that stalls is cut off, in a way that it can tell from the end.
    pub fn body(self, text: String) -> Body {
        if text.len() <= PIECE {
            return Body::from(text);
        }
        let (pieces, taken) = mpsc::channel(1);
        let left = text.len();
        tokio::spawn(async move {
            let mut rest = Bytes::from(text);
            while !rest.is_empty() {
                let piece = rest.split_to(rest.len().min(PIECE));
                if !matches!(tokio::time::timeout(STALLED, pieces.send(piece)).await, Ok(Ok(()))) {
                    break;
                }
            }
            drop(self.0);
        });
        Body::from_stream(read(taken, left))
    }
}

fn read(taken: mpsc::Receiver<Bytes>, left: usize) -> impl Stream<Item = io::Result<Bytes>> {
    futures::stream::unfold((taken, left), async |(mut taken, left)| match taken.recv().await {
        Some(piece) => {
            let left = left - piece.len();
            Some((Ok(piece), (taken, left)))
        }
        None if left == 0 => None,
        None => Some((Err(io::Error::from(io::ErrorKind::TimedOut)), (taken, 0))),
    })
}

#[cfg(test)]
mod tests {
    use futures::StreamExt as _;
    use http_body_util::BodyExt as _;

    use super::*;

    #[tokio::test]
    async fn a_client_that_reads_gets_everything() {
        let exports = Exports::new();
        let text = "0123456789".repeat(50_000);
        let body = exports.begin().unwrap().body(text.clone());
        assert_eq!(body.collect().await.unwrap().to_bytes(), text);
        assert_eq!(exports.0.available_permits(), AT_ONCE);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_stalls_is_cut_off_and_can_tell() {
        let exports = Exports::new();
        let mut stalled: Vec<_> = (0..AT_ONCE)
            .map(|_| exports.begin().unwrap().body("x".repeat(5 * PIECE)).into_data_stream())
            .collect();
        assert!(exports.begin().is_none(), "another one while as many are under way as may be");
        assert_eq!(stalled[0].next().await.unwrap().unwrap().len(), PIECE);
        // Time flies while nothing else is to do.
        let freed = exports.0.acquire_many(u32::try_from(AT_ONCE).unwrap()).await;
        drop(freed);
        let rest: Vec<_> = futures::StreamExt::collect(stalled.remove(0)).await;
        assert!(rest.last().unwrap().is_err(), "it looks complete");
        assert!(exports.begin().is_some());
    }
}
