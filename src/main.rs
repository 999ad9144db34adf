//! The `hudifs` binary: parse, run, exit code.

fn main() -> std::process::ExitCode {
    hudifs::cli::run(std::env::args_os().collect()).into()
}
