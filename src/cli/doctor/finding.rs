//! What a check reports.

use crate::cli::output::{Paint, paint, printable};
use crate::error::{Error, ErrorKind};
use serde::Serialize;
use std::io::{self, Write};

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Looked at and right.
    Ok,
    /// Worth knowing.
    Note,
    /// Something is not as it should be; what is shown is right all the same.
    Warning,
    /// Something cannot be shown or does not work.
    Error,
}

/// What a finding is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Area {
    /// This machine.
    Machine,
    /// The table.
    Table,
    /// A running daemon.
    Daemon,
}

/// One finding.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    severity: Severity,
    area: Area,
    /// A stable name of the check.
    check: String,
    /// What it is about: a path, an instant, a setting.
    #[serde(skip_serializing_if = "String::is_empty")]
    subject: String,
    message: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    remedy: String,
}

/// How many findings of each severity.
#[derive(Debug, Default, Serialize)]
pub struct Summary {
    ok: usize,
    notes: usize,
    warnings: usize,
    errors: usize,
}

/// Everything found so far, in the order of the checks.
#[derive(Debug, Default)]
pub struct Findings(Vec<Finding>);

impl Findings {
    /// Something was right.
    pub fn ok(&mut self, area: Area, check: &str, message: &str) {
        self.add(Severity::Ok, area, check, "", message, "");
    }

    /// Something is worth knowing.
    pub fn note(&mut self, area: Area, check: &str, subject: &str, message: &str, remedy: &str) {
        self.add(Severity::Note, area, check, subject, message, remedy);
    }

    /// Something is not as it should be.
    pub fn warn(&mut self, area: Area, check: &str, subject: &str, message: &str, remedy: &str) {
        self.add(Severity::Warning, area, check, subject, message, remedy);
    }

    /// Something does not work.
    pub fn error(&mut self, area: Area, check: &str, subject: &str, message: &str, remedy: &str) {
        self.add(Severity::Error, area, check, subject, message, remedy);
    }

    /// A failure while looking at a table.
    pub fn table_error(&mut self, check: &str, subject: &str, error: &Error) {
        let remedy = error.hint().unwrap_or(match error.kind() {
            ErrorKind::Corrupt => "restore the file from a backup, or roll the table back with Hudi's own tools",
            ErrorKind::Denied => "check the rights of this user and the store's credentials",
            ErrorKind::Unavailable => "check that the store answers",
            _ => "",
        });
        self.error(Area::Table, check, subject, error.message(), remedy);
    }

    fn add(&mut self, severity: Severity, area: Area, check: &str, subject: &str, message: &str, remedy: &str) {
        self.0.push(Finding {
            severity,
            area,
            check: check.to_owned(),
            subject: subject.to_owned(),
            message: message.to_owned(),
            remedy: remedy.to_owned(),
        });
    }

    /// The worst finding's severity and area; of equally bad ones, the table's.
    pub fn worst(&self) -> Option<(Severity, Area)> {
        self.0.iter().map(|f| (f.severity, f.area)).max_by_key(|(s, a)| (*s, *a == Area::Table))
    }

    /// Findings to print: those that are right only if asked for.
    pub fn shown(&self, verbose: bool) -> Vec<&Finding> {
        self.0.iter().filter(|f| verbose || f.severity > Severity::Ok).collect()
    }

    /// How many of each.
    pub fn summary(&self) -> Summary {
        let count = |severity| self.0.iter().filter(|f| f.severity == severity).count();
        Summary {
            ok: count(Severity::Ok),
            notes: count(Severity::Note),
            warnings: count(Severity::Warning),
            errors: count(Severity::Error),
        }
    }

    /// Writes the findings for people.
    pub fn write(&self, out: &mut impl Write, verbose: bool) -> io::Result<()> {
        for finding in self.shown(verbose) {
            let (word, colour) = match finding.severity {
                Severity::Ok => ("ok", Paint::Green),
                Severity::Note => ("note", Paint::Bold),
                Severity::Warning => ("warning", Paint::Yellow),
                Severity::Error => ("error", Paint::Red),
            };
            let subject = printable(&finding.subject);
            let subject = if subject.is_empty() { subject } else { format!("{subject}: ") };
            let message = printable(&finding.message);
            writeln!(out, "{} [{}] {subject}{message}", paint(colour, &format!("{word:<7}")), finding.check)?;
            if !finding.remedy.is_empty() {
                writeln!(out, "        {}", printable(&finding.remedy))?;
            }
        }
        let Summary { ok, notes, warnings, errors } = self.summary();
        writeln!(out, "{errors} errors, {warnings} warnings, {notes} notes, {ok} checks passed")?;
        out.flush()
    }
}
