//! Makes Rust of csi.proto; no protoc is needed.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=csi.proto");
    tonic_prost_build::configure()
        .build_client(false)
        // An RPC that a service does not have answers UNIMPLEMENTED.
        .generate_default_stubs(true)
        .compile_fds(protox::compile(["csi.proto"], ["."])?)?;
    Ok(())
}
