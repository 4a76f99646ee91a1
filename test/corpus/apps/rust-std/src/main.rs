use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;

fn main() -> std::io::Result<()> {
    let port: u16 = std::env::var("PORT").expect("PORT").parse().expect("a number");
    let listener = TcpListener::bind(("0.0.0.0", port))?;
    for stream in listener.incoming() {
        let mut stream = stream?;
        let mut lines = BufReader::new(stream.try_clone()?).lines();
        while let Some(Ok(line)) = lines.next() {
            if line.is_empty() {
                break;
            }
        }
        let body = "Hello from Rust";
        write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{}", body.len(), body)?;
    }
    Ok(())
}
