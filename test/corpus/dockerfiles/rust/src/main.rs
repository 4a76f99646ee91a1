use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::thread;

fn main() -> std::io::Result<()> {
    let port: u16 = std::env::var("PORT").expect("PORT").parse().expect("a port");
    for stream in TcpListener::bind(("0.0.0.0", port))?.incoming() {
        let mut stream = stream?;
        thread::spawn(move || {
            let lines = BufReader::new(&stream).lines();
            for line in lines {
                match line {
                    Ok(text) if !text.is_empty() => continue,
                    _ => break,
                }
            }
            let body = "Hello from Rust";
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
            let _ = stream.write_all((head + body).as_bytes());
        });
    }
    Ok(())
}
