//! Credentials and region from the AWS tools' own files, which `object_store` does not read.
//!
//! Used when the environment brings no credentials. Keys written in the files are taken; profiles that get theirs from
//! a login, a program or a role are refused by name, with the command that turns them into environment variables.

use crate::error::{Error, Result};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Larger files are not what the AWS tools write.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Variables with which the environment brings credentials itself.
const OTHER_SOURCES: [&str; 4] = [
    "AWS_ACCESS_KEY_ID",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
];
/// Settings of profiles whose keys are not in the files.
const INDIRECT: [&str; 4] = ["sso_session", "sso_start_url", "credential_process", "role_arn"];

/// What a profile says.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Profile {
    /// Key id, secret and session token.
    pub(super) keys: Option<(String, String, Option<String>)>,
    /// Region.
    pub(super) region: Option<String>,
}

/// Reads the profile that `AWS_PROFILE` names, else `default`. `env` looks up a variable.
pub(super) fn load(env: impl Fn(&str) -> Option<String>) -> Result<Profile> {
    if OTHER_SOURCES.iter().any(|name| env(name).is_some()) {
        return Ok(Profile::default());
    }
    let named = env("AWS_PROFILE");
    let name = named.as_deref().unwrap_or("default");
    let file = |variable: &str, usual: &str| {
        env(variable).map(PathBuf::from).or_else(|| Some(Path::new(&env("HOME")?).join(usual)))
    };
    let mut settings = HashMap::new();
    if let Some(config) = file("AWS_CONFIG_FILE", ".aws/config") {
        let title = if name == "default" { name.to_owned() } else { format!("profile {name}") };
        section(&read(&config)?, &title, &mut settings);
    }
    if let Some(credentials) = file("AWS_SHARED_CREDENTIALS_FILE", ".aws/credentials") {
        section(&read(&credentials)?, name, &mut settings);
    }
    if settings.is_empty() && named.is_some() {
        return Err(Error::invalid(format!("AWS_PROFILE names {name:?}, which is in neither of the AWS files"))
            .with_hint("unset AWS_PROFILE, or add the profile with `aws configure`"));
    }
    profile(name, settings)
}

fn profile(name: &str, mut settings: HashMap<String, String>) -> Result<Profile> {
    let mut take = |key: &str| settings.remove(key);
    let keys = match (take("aws_access_key_id"), take("aws_secret_access_key")) {
        (Some(id), Some(secret)) => Some((id, secret, take("aws_session_token"))),
        _ => None,
    };
    let region = take("region");
    match INDIRECT.iter().find(|key| settings.contains_key(**key)) {
        Some(key) if keys.is_none() => {
            Err(Error::unsupported(format!("AWS profile {name:?} gets its keys by {key}, which is not built in"))
                .with_hint("run: eval \"$(aws configure export-credentials --format env)\""))
        }
        _ => Ok(Profile { keys, region }),
    }
}

/// A file that does not exist says nothing.
fn read(path: &Path) -> Result<String> {
    use std::io::Read;
    let mut text = String::new();
    let file = std::fs::File::open(path).and_then(|f| f.take(FILE_BYTES_MAX).read_to_string(&mut text));
    match file {
        Ok(_) => Ok(text),
        Err(e) if matches!(e.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory) => Ok(text),
        Err(e) => Err(Error::io(path.display(), e)),
    }
}

/// Adds the settings of `[title]`. Nested settings (indented) belong to the one above them and are left out.
fn section(text: &str, title: &str, settings: &mut HashMap<String, String>) {
    let mut inside = false;
    for line in text.lines() {
        let trimmed = line.trim();
        if let Some(header) = trimmed.strip_prefix('[') {
            inside = header.split(']').next().is_some_and(|h| h.split_whitespace().eq(title.split_whitespace()));
        } else if inside
            && !line.starts_with([' ', '\t', '#', ';'])
            && let Some((key, value)) = trimmed.split_once('=')
        {
            settings.insert(key.trim().to_ascii_lowercase(), value.trim().to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    fn load_from(config: &str, credentials: &str, extra: &[(&str, &str)]) -> Result<Profile> {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir(home.path().join(".aws")).unwrap();
        std::fs::write(home.path().join(".aws/config"), config).unwrap();
        std::fs::write(home.path().join(".aws/credentials"), credentials).unwrap();
        load(|name| match name {
            "HOME" => home.path().to_str().map(str::to_owned),
            name => extra.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned()),
        })
    }

    const CREDENTIALS: &str = "# keys\n[default]\naws_access_key_id = A\naws_secret_access_key=B=\n\n[other]\naws_access_key_id=C\naws_secret_access_key=D\naws_session_token = T\n";

    #[test]
    fn keys_and_region_come_from_the_files() {
        let config = "[default]\nregion = eu-west-1\ns3 =\n  region = nested\n[profile other]\nregion=us-west-2\n";
        let got = load_from(config, CREDENTIALS, &[]).unwrap();
        assert_eq!(got.keys, Some(("A".into(), "B=".into(), None)));
        assert_eq!(got.region.as_deref(), Some("eu-west-1"));
        let got = load_from(config, CREDENTIALS, &[("AWS_PROFILE", "other")]).unwrap();
        assert_eq!(got.keys, Some(("C".into(), "D".into(), Some("T".into()))));
        assert_eq!(got.region.as_deref(), Some("us-west-2"));
    }

    #[test]
    fn the_environment_goes_first_and_missing_files_say_nothing() {
        let env = [("AWS_ACCESS_KEY_ID", "X")];
        assert_eq!(load_from("", CREDENTIALS, &env).unwrap(), Profile::default());
        assert_eq!(load(|_| None).unwrap(), Profile::default());
        assert_eq!(load(|name| (name == "HOME").then(|| "/nonexistent".to_owned())).unwrap(), Profile::default());
    }

    #[test]
    fn what_is_not_understood_is_refused_by_name() {
        let e = load_from("[default]\nsso_session = s\n", "", &[]).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Unsupported);
        assert!(e.to_string().contains("export-credentials"), "{e}");
        assert_eq!(load_from("", CREDENTIALS, &[("AWS_PROFILE", "no")]).unwrap_err().kind(), ErrorKind::Invalid);
        for junk in ["[", "[[[", "=", "[default", "[default]\n=\n[", "\0\u{feff}[default]"] {
            assert!(load_from(junk, junk, &[]).is_ok());
        }
    }
}
