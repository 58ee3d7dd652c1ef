//! `csi`: the only place that exits.

fn main() -> std::process::ExitCode {
    csi_cli::main()
}
