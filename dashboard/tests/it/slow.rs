//! Clients that do not read.

use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::middleware;
use axum::response::Response;
use futures::TryStreamExt as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use crate::invented::large;
use crate::rig::Rig;

/// What is kept of each answer.
type Answers = Arc<Mutex<Vec<Weak<()>>>>;

/// A piece of an answer.
struct Piece {
    bytes: Bytes,
    _kept: Arc<()>,
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Pages of whose answers can be told whether anything is still kept.
fn watched(router: Router) -> (Router, Answers) {
    let answers = Answers::default();
    let known = Arc::clone(&answers);
    let watch = middleware::map_response(move |response: Response| {
        let kept = Arc::new(());
        known.lock().unwrap().push(Arc::downgrade(&kept));
        let piece = move |bytes| Bytes::from_owner(Piece { bytes, _kept: Arc::clone(&kept) });
        async move { response.map(|body| Body::from_stream(body.into_data_stream().map_ok(piece))) }
    });
    (router.layer(watch), answers)
}

/// Buffers so small that an answer does not fit into them: it waits for the client.
const SMALL: u32 = 4_096;

fn served(router: Router) -> std::net::SocketAddr {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_send_buffer_size(SMALL).unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener: TcpListener = socket.listen(16).unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { dashboard::web::serve(listener, router).await });
    address
}

async fn asks(address: std::net::SocketAddr, path: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(SMALL).unwrap();
    let mut stream = socket.connect(address).await.unwrap();
    stream.write_all(request(path).as_bytes()).await.unwrap();
    stream
}

fn request(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
}

/// Whether an answer has as many bytes as it said, or the piece that is the last one.
fn is_whole(came: &str) -> bool {
    let (head, body) = came.split_once("\r\n\r\n").unwrap();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    length.map_or_else(|| body.ends_with("\r\n0\r\n\r\n"), |length| length.parse() == Ok(body.len()))
}

/// Waits until this answer began and was let go. The clock runs ahead whenever nothing else is to do.
async fn let_go(answers: &Answers, number: usize) {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        if answers.lock().unwrap().get(number).is_some_and(|answer| answer.strong_count() == 0) {
            return;
        }
        assert!(Instant::now() < deadline, "answer {number} is held for ever");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Whatever is asked for, it is not kept for a client that reads nothing; and what came of it does not look whole.
#[tokio::test(start_paused = true)]
async fn a_client_that_reads_nothing_is_cut_off_and_can_tell() {
    let (router, answers) = watched(Rig::of(large(2_000)).0);
    let address = served(router);
    for (number, path) in
        ["/addresses.json?limit=1000", "/addresses?limit=1000", "/addresses.csv"].into_iter().enumerate()
    {
        let mut stream = asks(address, path).await;
        let_go(&answers, number).await;
        let mut came = Vec::new();
        // The end may come as an error.
        let _end = stream.read_to_end(&mut came).await;
        let came = String::from_utf8_lossy(&came);
        assert!(came.starts_with("HTTP/1.1 200"), "{path}: {came}");
        assert!(came.len() < 60_000, "{path}: {} bytes were kept for it", came.len());
        assert!(!is_whole(&came), "{path}: it looks whole");
    }
}

/// Tables that nobody reads make room for others.
#[tokio::test(start_paused = true)]
async fn exports_that_nobody_reads_make_room_for_others() {
    let (router, answers) = watched(Rig::of(large(2_000)).0);
    let rig = Rig(router.clone());
    let address = served(router);
    let mut stalled = Vec::new();
    for _ in 0..4 {
        stalled.push(asks(address, "/addresses.csv").await);
    }
    let deadline = Instant::now() + Duration::from_secs(60);
    while answers.lock().unwrap().len() < 4 {
        assert!(Instant::now() < deadline, "they are not asked for");
        tokio::task::yield_now().await;
    }
    let busy = rig.get("/addresses.csv").await;
    assert_eq!((busy.status.as_u16(), busy.header("retry-after")), (503, "5"), "{}", busy.text);
    for number in 0..4 {
        let_go(&answers, number).await;
    }
    assert_eq!(rig.page("/addresses.csv").await.lines().count(), 2_001);
}

/// A client that reads, however late, gets everything.
#[tokio::test]
async fn a_client_that_reads_gets_everything_over_the_network() {
    let (router, _) = watched(Rig::of(large(2_000)).0);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    tokio::spawn(async move { dashboard::web::serve(listener, router).await });
    stream.write_all(request("/addresses.json?limit=1000").as_bytes()).await.unwrap();
    let mut came = String::new();
    stream.read_to_string(&mut came).await.unwrap();
    assert!(came.starts_with("HTTP/1.1 200") && is_whole(&came), "{} bytes", came.len());
}
