//! The server behind a Service.

use std::io;
use std::net::{Ipv4Addr, TcpListener as StdListener};
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;

use super::{LINE, PORT};
use crate::network::Namespace;
use crate::{Error, Result};

/// How often it says its name on a long connection.
const SAID_EVERY: Duration = Duration::from_millis(20);

/// An HTTP server in a pod's network, which answers every request with its own name. It ends when this is dropped.
#[derive(Debug)]
pub struct Workload {
    name: String,
    /// Dropped with it: that is how the thread hears of the end.
    _running: oneshot::Sender<()>,
}

impl Workload {
    pub(crate) fn start(pod: &Namespace, name: String) -> Result<Self> {
        let (running, ended) = oneshot::channel();
        let (say, said) = mpsc::channel();
        let answer: Arc<str> = name.as_str().into();
        // Nobody waits for the thread. The pod's network lives as long as it is in there.
        pod.thread("workload", move || match listen() {
            Ok((listener, runtime)) => {
                let _ = say.send(Ok(()));
                runtime.block_on(async {
                    tokio::select! {
                        _ = serve(listener, &answer) => {}
                        _ = ended => {}
                    }
                });
            }
            Err(error) => {
                let _ = say.send(Err(error));
            }
        })?;
        let listening = said.recv().map_err(|_| Error::WorkerGone("workload"))?;
        listening.map_err(Error::io(format!("listening as {name}")))?;
        Ok(Self { name, _running: running })
    }

    /// `namespace/name`, as in its answers.
    pub fn name(&self) -> &str {
        &self.name
    }
}

fn listen() -> io::Result<(StdListener, Runtime)> {
    let listener = StdListener::bind((Ipv4Addr::UNSPECIFIED, PORT))?;
    listener.set_nonblocking(true)?;
    Ok((listener, Builder::new_current_thread().enable_all().build()?))
}

async fn serve(listener: StdListener, name: &Arc<str>) -> io::Result<()> {
    let listener = TcpListener::from_std(listener)?;
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::spawn(answer(stream, Arc::clone(name)));
    }
}

async fn answer(mut stream: TcpStream, name: Arc<str>) -> io::Result<()> {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        if stream.read_buf(&mut request).await? == 0 {
            return Ok(());
        }
    }
    stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: text/plain\r\n\r\n").await?;
    let said = format!("{name}\n");
    let lasts = request.starts_with(format!("GET {LINE} ").as_bytes());
    loop {
        stream.write_all(said.as_bytes()).await?;
        if !lasts {
            return stream.shutdown().await;
        }
        tokio::time::sleep(SAID_EVERY).await;
    }
}
