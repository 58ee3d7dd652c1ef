//! A way to the NFS server that a test can cut: connections to its port go on to the server until it falls silent.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// A port of this machine behind which the NFS server is. For version 3: clients of version 4 find out that it is the server
/// that they know, and then all of them go through here, or none.
pub struct Relay {
    port: u16,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    silent: AtomicBool,
    clients: Mutex<Vec<TcpStream>>,
}

impl Relay {
    pub fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(State::default());
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let Ok(server) = TcpStream::connect("127.0.0.1:2049") else {
                    return;
                };
                let (from_client, to_server) = (client.try_clone(), server.try_clone());
                shared
                    .clients
                    .lock()
                    .unwrap()
                    .push(client.try_clone().unwrap());
                pass(from_client.unwrap(), server, Arc::clone(&shared));
                pass(to_server.unwrap(), client, Arc::clone(&shared));
            }
        });
        Self { port, state }
    }

    /// The mount option that leads through here.
    pub fn option(&self) -> String {
        format!("port={}", self.port)
    }

    /// From now on nothing comes through, as when the server's machine is gone: connections stay, and nobody answers.
    pub fn fall_silent(&self) {
        self.state.silent.store(true, Ordering::SeqCst);
    }

    /// Lets all through again, in new connections: of the old ones a part was lost.
    pub fn come_back(&self) {
        self.state.silent.store(false, Ordering::SeqCst);
        for client in self.state.clients.lock().unwrap().drain(..) {
            let _ = client.shutdown(Shutdown::Both);
        }
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, state: Arc<State>) {
    std::thread::spawn(move || {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(length @ 1..) = from.read(&mut buffer) {
            let silent = state.silent.load(Ordering::SeqCst);
            if !silent && to.write_all(&buffer[..length]).is_err() {
                return;
            }
        }
        let _ = to.shutdown(Shutdown::Both);
    });
}
