//! A way to the NFS server that a test can cut: connections to its port go on to the server until it falls silent.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A port of this machine behind which the NFS server is.
pub struct Relay {
    port: u16,
    silent: Arc<AtomicBool>,
}

impl Relay {
    pub fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let silent = Arc::new(AtomicBool::new(false));
        let shared = Arc::clone(&silent);
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let Ok(server) = TcpStream::connect("127.0.0.1:2049") else {
                    return;
                };
                let (from_client, to_server) = (client.try_clone(), server.try_clone());
                pass(from_client.unwrap(), server, Arc::clone(&shared));
                pass(to_server.unwrap(), client, Arc::clone(&shared));
            }
        });
        Self { port, silent }
    }

    /// The mount option that leads through here.
    pub fn option(&self) -> String {
        format!("port={}", self.port)
    }

    /// From now on nothing comes through, as when the server's machine is gone: connections stay, and nobody answers.
    pub fn fall_silent(&self) {
        self.silent.store(true, Ordering::SeqCst);
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, silent: Arc<AtomicBool>) {
    std::thread::spawn(move || {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(length @ 1..) = from.read(&mut buffer) {
            if !silent.load(Ordering::SeqCst) && to.write_all(&buffer[..length]).is_err() {
                return;
            }
        }
    });
}
