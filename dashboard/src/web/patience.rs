//! Clients that read nothing: after a while the connection fails, and what was to be written to it is let go, whatever
//! it is.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::serve::Listener;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Sleep;

/// How long a client may read nothing while something waits to be written to it.
const STALLED: Duration = Duration::from_secs(30);

/// Takes connections, and waits on none of them for ever.
pub(super) struct Patient(pub(super) TcpListener);

impl Listener for Patient {
    type Io = Connection;
    type Addr = <TcpListener as Listener>::Addr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        let (io, address) = Listener::accept(&mut self.0).await;
        (Connection { io, stalled: None }, address)
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.0.local_addr()
    }
}

/// A connection that fails when nothing could be written for a while.
pub(super) struct Connection {
    io: TcpStream,
    /// Runs while something waits to be written.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl Connection {
    fn write<R>(
        &mut self,
        cx: &mut Context,
        write: impl FnOnce(Pin<&mut TcpStream>, &mut Context) -> Poll<io::Result<R>>,
    ) -> Poll<io::Result<R>> {
        if let Poll::Ready(written) = write(Pin::new(&mut self.io), cx) {
            self.stalled = None;
            return Poll::Ready(written);
        }
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep(STALLED)));
        ready!(stalled.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Connection {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context, buffer: &mut ReadBuf) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.write(cx, |io, cx| io.poll_write(cx, bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context,
        pieces: &[io::IoSlice],
    ) -> Poll<io::Result<usize>> {
        self.write(cx, |io, cx| io.poll_write_vectored(cx, pieces))
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context) -> Poll<io::Result<()>> {
        self.write(cx, AsyncWrite::poll_flush)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context) -> Poll<io::Result<()>> {
        self.write(cx, AsyncWrite::poll_shutdown)
    }
}
