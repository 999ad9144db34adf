//! `mount.hudifs URI DIR -o options`: what mount(8), fstab and `mount -t fuse.hudifs` run.
//!
//! Options become the arguments of `hudifs mount`, so that both have one parser and one meaning. What mount(8) itself handles,
//! and what stands in an fstab for others (`x-*`, `nofail`, `_netdev`), is dropped; any other unknown option is refused.

use std::ffi::{OsStr, OsString};
use std::path::Path;

/// What mount(8) asked for.
#[derive(Debug, PartialEq, Eq)]
pub struct HelperCall {
    /// Arguments for the usual parser, program name included.
    pub args: Vec<OsString>,
    /// `-f`: check only, do not mount.
    pub fake: bool,
}

/// Options for other readers of an fstab, or without a meaning for a read-only tree.
const IGNORED: &[&str] = &[
    "ro",
    "rw",
    "defaults",
    "auto",
    "noauto",
    "user",
    "nouser",
    "users",
    "owner",
    "group",
    "_netdev",
    "nofail",
    "dev",
    "nodev",
    "suid",
    "nosuid",
    "exec",
    "noexec",
    "sync",
    "async",
    "dirsync",
    "atime",
    "noatime",
    "relatime",
    "norelatime",
    "strictatime",
    "nostrictatime",
    "diratime",
    "nodiratime",
    "lazytime",
    "nolazytime",
    "silent",
    "loud",
    "mand",
    "nomand",
    "nonempty",
];

/// Options without a value, with the same name in both spellings.
const FLAGS: &[&str] = &[
    "allow_other",
    "allow_root",
    "auto_unmount",
    "no_sign_request",
    "debug",
    "warehouse",
    "replace_stale",
    "poll",
    "read_only",
    "no_passthrough",
    "foreground",
];

/// Options with a value.
const VALUES: &[&str] = &[
    "uid",
    "gid",
    "file_mode",
    "dir_mode",
    "cache",
    "max_cache_size",
    "memory_target",
    "metadata_ttl",
    "region",
    "endpoint_url",
    "log_directory",
    "log_format",
    "as_of",
    "listing",
    "threads",
];

/// True if the process was started as a mount(8) helper: under its name, or as `hudifs URI DIR -o …` by mount.fuse3.
pub fn is_helper_call(args: &[OsString], subcommands: &[&str]) -> bool {
    let name = args.first().map(Path::new).and_then(Path::file_name).and_then(OsStr::to_str).unwrap_or_default();
    if name.starts_with("mount.") {
        return true;
    }
    let first = args.get(1).and_then(|a| a.to_str()).unwrap_or_default();
    let has_options = args.iter().skip(3).any(|a| a == "-o");
    has_options && !first.starts_with('-') && !subcommands.contains(&first)
}

/// Translates a helper's arguments; the error is a message for people.
pub fn translate(args: &[OsString]) -> Result<HelperCall, String> {
    let mut call = HelperCall { args: vec!["hudifs".into(), "mount".into()], fake: false };
    let mut positional = Vec::new();
    let mut sloppy = false;
    let mut options = Vec::new();
    let mut rest = args.iter().skip(1);
    while let Some(arg) = rest.next() {
        match arg.to_str() {
            Some("-o") => {
                let list = rest.next().ok_or("-o needs options")?;
                options.push(list.to_str().ok_or("the options are not UTF-8")?.to_owned());
            }
            Some("-t" | "-N") => drop(rest.next()),
            Some(flags) if flags.len() > 1 && flags.starts_with('-') => {
                for flag in flags.chars().skip(1) {
                    match flag {
                        'n' | 'v' | 'w' | 'r' => {}
                        's' => sloppy = true,
                        'f' => call.fake = true,
                        _ => return Err(format!("unknown flag -{flag}")),
                    }
                }
            }
            _ => positional.push(arg.clone()),
        }
    }
    for option in options.iter().flat_map(|list| list.split(',')).filter(|o| !o.is_empty()) {
        match translate_option(option) {
            Ok(Some(arg)) => call.args.push(arg.into()),
            Ok(None) => {}
            Err(_) if sloppy => {}
            Err(message) => return Err(message),
        }
    }
    if positional.len() != 2 {
        return Err(format!("expected a table URI and a directory, got {} arguments", positional.len()));
    }
    call.args.push("--".into());
    call.args.append(&mut positional);
    Ok(call)
}

/// One option as an argument; `None` for what is dropped.
fn translate_option(option: &str) -> Result<Option<String>, String> {
    let (name, value) = option.split_once('=').map_or((option, None), |(n, v)| (n, Some(v)));
    let dropped = ["x-", "X-"].iter().any(|p| name.starts_with(p)) || ["comment", "fsname", "subtype"].contains(&name);
    if dropped {
        return Ok(None);
    }
    // Both spellings of a name are taken: fstab's habit is the underscore.
    let name = name.replace('-', "_");
    let known = |names: &[&str]| names.contains(&name.as_str());
    match value {
        None if known(IGNORED) => Ok(None),
        None if known(FLAGS) => Ok(Some(format!("--{}", name.replace('_', "-")))),
        Some(value) if known(VALUES) => Ok(Some(format!("--{}={value}", name.replace('_', "-")))),
        None if known(VALUES) => Err(format!("option {name} needs a value")),
        Some(_) if known(FLAGS) || known(IGNORED) => Err(format!("option {name} takes no value")),
        _ => Err(format!("unknown option {option:?}; `hudifs mount --help` lists them, with - in place of _")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::args::{Cli, Command};
    use clap::Parser;

    fn os(args: &[&str]) -> Vec<OsString> {
        args.iter().map(OsString::from).collect()
    }

    #[test]
    fn calls_by_mount_are_told_from_calls_by_people() {
        let subcommands = ["mount", "status"];
        assert!(is_helper_call(&os(&["/sbin/mount.hudifs", "/t", "/m"]), &subcommands));
        assert!(is_helper_call(&os(&["hudifs", "/t", "/m", "-o", "rw"]), &subcommands));
        assert!(!is_helper_call(&os(&["hudifs", "mount", "/t", "/m", "-o"]), &subcommands));
        assert!(!is_helper_call(&os(&["hudifs", "--help"]), &subcommands));
        assert!(!is_helper_call(&os(&[]), &subcommands));
    }

    #[test]
    fn an_fstab_line_becomes_arguments() {
        let options = "ro,_netdev,nofail,allow_other,uid=1000,file_mode=444,metadata-ttl=2,x-systemd.automount";
        let call = translate(&os(&["mount.hudifs", "s3://b/t", "/mnt/t", "-o", options, "-n", "-sv"])).unwrap();
        let Command::Mount(args) = Cli::try_parse_from(&call.args).unwrap().command else { panic!("not a mount") };
        assert!(args.allow_other && !call.fake);
        assert_eq!((args.uid, args.file_mode), (Some(1000), Some(0o444)));
        assert_eq!(args.directory, Path::new("/mnt/t"));
    }

    #[test]
    fn every_option_is_one_of_the_parser() {
        for flag in FLAGS.iter().filter(|f| **f != "allow_root") {
            let call = translate(&os(&["mount.hudifs", "/t", "/m", "-o", flag])).unwrap();
            assert!(Cli::try_parse_from(&call.args).is_ok(), "{flag}");
        }
        for name in VALUES {
            let value = match *name {
                "file_mode" | "dir_mode" => "644",
                "log_format" => "json",
                "listing" => "storage",
                _ => "7",
            };
            let option = format!("{name}={value},cache=/c");
            let call = translate(&os(&["mount.hudifs", "/t", "/m", "-o", option.trim_end_matches(",cache=/c")]));
            let call = if *name == "max_cache_size" { translate(&os(&["m", "/t", "/m", "-o", &option])) } else { call };
            assert!(Cli::try_parse_from(&call.unwrap().args).is_ok(), "{name}");
        }
    }

    #[test]
    fn what_is_not_known_is_refused() {
        for (options, needle) in
            [("speed=11", "speed"), ("uid", "value"), ("ro=1", "no value"), ("allow_othre", "othre")]
        {
            let error = translate(&os(&["mount.hudifs", "/t", "/m", "-o", options])).unwrap_err();
            assert!(error.contains(needle), "{error}");
        }
        assert!(translate(&os(&["mount.hudifs", "/t", "/m", "-s", "-o", "speed=11"])).is_ok(), "sloppy");
        assert!(translate(&os(&["mount.hudifs", "/t"])).is_err());
        assert!(translate(&os(&["mount.hudifs", "/t", "/m", "-o"])).is_err());
        assert!(translate(&os(&["mount.hudifs", "/t", "/m", "-f"])).unwrap().fake);
    }
}
