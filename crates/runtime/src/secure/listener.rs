//! Connections by TLS. Whoever is slow with its greeting holds up nobody else.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use axum::serve::Listener;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::Door;

/// How long a greeting may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// How many may greet at a time.
const AT_ONCE: usize = 64;

type Connection = (TlsStream<TcpStream>, SocketAddr);

/// A listener that speaks TLS with the newest certificate there is.
pub(super) struct Tls {
    listener: TcpListener,
    door: Door,
    greeting: JoinSet<Option<Connection>>,
}

impl Tls {
    pub(super) fn new(listener: TcpListener, door: Door) -> Self {
        Self { listener, door, greeting: JoinSet::new() }
    }
}

impl Listener for Tls {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> Connection {
        loop {
            tokio::select! {
                Some(greeted) = self.greeting.join_next() => {
                    if let Ok(Some(connection)) = greeted {
                        return connection;
                    }
                }
                (stream, peer) = Listener::accept(&mut self.listener), if self.greeting.len() < AT_ONCE => {
                    self.greeting.spawn(greet(self.door.clone(), stream, peer));
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

async fn greet(door: Door, stream: TcpStream, peer: SocketAddr) -> Option<Connection> {
    let config = door.0.certificates.config().await;
    let greeted = tokio::time::timeout(PATIENCE, TlsAcceptor::from(config).accept(stream)).await;
    match greeted {
        Ok(Ok(stream)) => Some((stream, peer)),
        Ok(Err(error)) => {
            tracing::debug!(%peer, "no TLS with whoever asks for metrics: {error}");
            None
        }
        Err(_) => None,
    }
}
