//! Reading a page of one of our processes.

use kube::Client;
use kube::api::GetParams;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The whole answer at a path, its head included.
pub async fn fetch(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

/// What is at a path by HTTPS, whoever vouches for the certificate; else the status of the answer.
#[expect(clippy::panic, reason = "that is how a test fails")]
pub async fn fetch_securely(address: &str, path: &str, token: Option<&str>) -> Result<String, u16> {
    let mut config = kube::Config::new(format!("https://{address}").parse().unwrap());
    config.accept_invalid_certs = true;
    config.auth_info.token = token.map(|token| token.to_owned().into());
    let client = Client::try_from(config).unwrap();
    let request = kube::core::Request::new("").get(path, &GetParams::default()).unwrap();
    match client.request_text(request).await {
        Ok(text) => Ok(text),
        Err(kube::Error::Api(status)) => Err(status.code),
        Err(error) => panic!("https://{address}/{path}: {error}"),
    }
}

/// The JSON at an address of plain HTTP.
pub async fn json_at(url: &str) -> Value {
    let (host, path) = url.strip_prefix("http://").and_then(|rest| rest.split_once('/')).unwrap();
    let client = Client::try_from(kube::Config::new(format!("http://{host}").parse().unwrap())).unwrap();
    let request = http::Request::get(format!("/{path}")).body(Vec::new()).unwrap();
    serde_json::from_str(&client.request_text(request).await.unwrap()).unwrap()
}
