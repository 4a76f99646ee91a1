use std::convert::Infallible;
use std::net::SocketAddr;

use hyper::service::{make_service_fn, service_fn};
use hyper::{Body, Request, Response, Server};

async fn hello(request: Request<Body>) -> Result<Response<Body>, Infallible> {
    Ok(Response::new(Body::from(format!("Hello from hyper at {}", request.uri().path()))))
}

#[tokio::main]
async fn main() {
    let port = std::env::var("PORT").ok().and_then(|text| text.parse().ok()).unwrap_or(3000);
    let address = SocketAddr::from(([0, 0, 0, 0], port));
    let service = make_service_fn(|_| async { Ok::<_, Infallible>(service_fn(hello)) });
    if let Err(error) = Server::bind(&address).serve(service).await {
        eprintln!("server error: {error}");
    }
}
