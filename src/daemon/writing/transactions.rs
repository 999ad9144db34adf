//! Open transactions: bodies set aside until they are committed together.
//!
//! Nothing of a transaction is in the table before its commit, so one that is aborted, times out, or ends with the daemon leaves
//! nothing behind. A commit that fails leaves it open: it can be tried again or aborted.

use crate::control::body::RecordBody;
use crate::control::problem::{Failure, Problem};
use crate::control::types::{BeginRequest, Transaction};
use crate::control::writes::{CallOptions, WriteCall};
use crate::daemon::service::now_ms;
use crate::error::{Error, ErrorKind};
use crate::telemetry::metric;
use crate::write::Operation;
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Open transactions at most.
const OPEN_MAX: usize = 64;
/// Requests of one transaction at most.
const REQUESTS_MAX: usize = 10_000;
/// How long one stays open after each request unless it says otherwise.
const TTL_DEFAULT: u64 = 600;
/// Longest time that one may ask for.
const TTL_MAX: u64 = 24 * 3600;
/// Between two looks for those whose time is over.
const LOOK: Duration = Duration::from_secs(1);

/// The open transactions of a process.
#[derive(Debug, Default)]
pub struct Pool {
    state: Mutex<State>,
    emptied: Condvar,
}

#[derive(Debug, Default)]
struct State {
    open: BTreeMap<String, Open>,
    /// A thread looks for those whose time is over.
    watched: bool,
}

#[derive(Debug)]
struct Open {
    document: Transaction,
    operation: Operation,
    options: CallOptions,
    bodies: Vec<RecordBody>,
    ttl_ms: i64,
}

impl Pool {
    /// Opens one on a table.
    pub fn begin(self: &Arc<Self>, table: &str, request: &BeginRequest) -> Result<Transaction, Failure> {
        let (operation, options, ttl) = checked(request).map_err(|failure| failure.table(table))?;
        let mut state = self.lock();
        if state.open.len() >= OPEN_MAX {
            return Err(Problem::new("too_many_writes", format!("{OPEN_MAX} transactions are open already"))
                .hint("commit or abort some, or let them time out")
                .into());
        }
        let now = now_ms();
        let ttl_ms = i64::try_from(ttl).unwrap_or(0).saturating_mul(1000);
        let document = Transaction {
            id: uuid::Uuid::new_v4().to_string(),
            table: table.to_owned(),
            operation: operation.name().to_ascii_lowercase(),
            state: "open".to_owned(),
            started_ms: now,
            expires_ms: now.saturating_add(ttl_ms),
            ..Transaction::default()
        };
        let open = Open { document: document.clone(), operation, options, bodies: Vec::new(), ttl_ms };
        state.open.insert(document.id.clone(), open);
        state.count();
        self.watch(&mut state);
        Ok(document)
    }

    /// All, oldest first.
    pub fn list(&self) -> Vec<Transaction> {
        let mut all: Vec<Transaction> = self.lock().open.values().map(|open| open.document.clone()).collect();
        all.sort_by(|a, b| (a.started_ms, &a.id).cmp(&(b.started_ms, &b.id)));
        all
    }

    /// One of them.
    pub fn get(&self, id: &str) -> Result<Transaction, Failure> {
        Ok(self.lock().find(id)?.document.clone())
    }

    /// Adds a body.
    pub fn append(&self, id: &str, body: RecordBody, rows: u64) -> Result<Transaction, Failure> {
        let mut state = self.lock();
        let open = state.find(id)?.check_open()?;
        if open.bodies.len() >= REQUESTS_MAX {
            return Err(Problem::new("invalid", format!("a transaction has {REQUESTS_MAX} requests at most"))
                .hint("send more rows with each request")
                .into());
        }
        open.document.requests += 1;
        open.document.rows += rows;
        open.document.size_bytes += body.body.len();
        open.bodies.push(body);
        open.extend();
        Ok(open.document.clone())
    }

    /// What its commit is to do, and on which table. It takes no more records until it is reopened.
    pub fn commit(&self, id: &str) -> Result<(String, WriteCall), Failure> {
        let mut state = self.lock();
        let open = state.find(id)?.check_open()?;
        if open.bodies.is_empty() {
            return Err(Problem::new("invalid", "nothing was sent in this transaction").hint("abort it").into());
        }
        "committing".clone_into(&mut open.document.state);
        let call = WriteCall {
            operation: open.operation,
            bodies: open.bodies.clone(),
            partitions: Vec::new(),
            dry_run: false,
            idempotency_key: None,
            options: open.options.clone(),
        };
        Ok((open.document.table.clone(), call))
    }

    /// Its commit failed, or was none: it can be tried again.
    pub fn reopen(&self, id: &str) {
        if let Some(open) = self.lock().open.get_mut(id) {
            "open".clone_into(&mut open.document.state);
            open.extend();
        }
    }

    /// Its commit is done.
    pub fn close(&self, id: &str) {
        let mut state = self.lock();
        state.open.remove(id);
        state.count();
    }

    /// Ends one. `Conflict` while it is being committed.
    pub fn abort(&self, id: &str) -> Result<(), Failure> {
        let mut state = self.lock();
        state.find(id)?.check_open()?;
        state.open.remove(id);
        state.count();
        Ok(())
    }

    /// Ends all that are not being committed.
    pub fn clear(&self) {
        let mut state = self.lock();
        state.open.retain(|_, open| open.check_open().is_err());
        state.count();
        self.emptied.notify_all();
    }

    /// Keeps a thread for as long as any is open, so that bodies of forgotten ones do not stay.
    fn watch(self: &Arc<Self>, state: &mut State) {
        if state.watched {
            return;
        }
        let pool = self.clone();
        let look = move || {
            let mut state = pool.lock();
            while !state.open.is_empty() {
                state = pool.emptied.wait_timeout(state, LOOK).unwrap_or_else(PoisonError::into_inner).0;
                state.expire();
            }
            state.watched = false;
        };
        // Without the thread they end when somebody asks.
        state.watched = std::thread::Builder::new().name("transactions".to_owned()).spawn(look).is_ok();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.expire();
        state
    }
}

impl State {
    fn find(&mut self, id: &str) -> Result<&mut Open, Failure> {
        self.open.get_mut(id).ok_or_else(|| {
            Error::not_found(format!("there is no open transaction {id:?}"))
                .with_hint("it may have been committed, aborted, or timed out; begin another")
                .into()
        })
    }

    fn expire(&mut self) {
        let now = now_ms();
        self.open.retain(|id, open| {
            let stays = open.document.state != "open" || open.document.expires_ms > now;
            if !stays {
                tracing::info!(table = open.document.table, transaction = id, "transaction timed out");
            }
            stays
        });
        self.count();
    }

    fn count(&self) {
        metric::TRANSACTIONS.set((), i64::try_from(self.open.len()).unwrap_or(i64::MAX));
    }
}

impl Open {
    fn check_open(&mut self) -> Result<&mut Open, Failure> {
        if self.document.state == "open" {
            return Ok(self);
        }
        let error = Error::new(ErrorKind::Conflict, "the transaction is being committed");
        Err(error.with_hint("GET /v1/jobs shows how far it is").into())
    }

    fn extend(&mut self) {
        self.document.expires_ms = now_ms().saturating_add(self.ttl_ms);
    }
}

fn checked(request: &BeginRequest) -> Result<(Operation, CallOptions, u64), Failure> {
    let wrong = |field: &str, error: &Error| {
        let problem = Problem { column: Some(field.to_owned()), ..Problem::new("invalid", error.message()) };
        Failure::from(Problem { hint: error.hint().map(str::to_owned), ..problem })
    };
    let operation: Operation = match request.operation.as_deref().unwrap_or("upsert").parse() {
        Ok(Operation::DeletePartition) => {
            let error = Error::invalid("delete_partition takes no records").with_hint("it is one request by itself");
            return Err(wrong("operation", &error));
        }
        Ok(operation) => operation,
        Err(error) => return Err(wrong("operation", &error)),
    };
    let ttl = request.ttl_seconds.unwrap_or(TTL_DEFAULT);
    if ttl == 0 || ttl > TTL_MAX {
        return Err(wrong("ttl_seconds", &Error::invalid(format!("ttl_seconds is 1 to {TTL_MAX}, not {ttl}"))));
    }
    let index = request.index.as_deref().map(str::parse).transpose().map_err(|e| wrong("index", &e))?;
    for key in request.settings.keys() {
        crate::control::writes::check_setting(key)?;
    }
    let options = CallOptions {
        index,
        settings: request.settings.clone(),
        no_services: request.services == Some(false),
        drop_unsupported_index: request.drop_unsupported_index,
    };
    Ok((operation, options, ttl))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::body::Body;
    use crate::record::decode::BodyFormat;

    fn body() -> RecordBody {
        RecordBody { format: BodyFormat::Csv, body: Body::Memory(bytes::Bytes::from_static(b"a\n1\n")) }
    }

    #[test]
    fn a_failed_commit_leaves_it_open_and_a_done_one_closes_it() {
        let pool = Arc::new(Pool::default());
        let begun = pool.begin("t", &BeginRequest::default()).unwrap();
        assert_eq!(begun.operation, "upsert");
        assert_eq!(pool.commit(&begun.id).unwrap_err().0.code, "invalid");
        pool.append(&begun.id, body(), 1).unwrap();
        let after = pool.append(&begun.id, body(), 1).unwrap();
        assert_eq!((after.requests, after.rows, after.size_bytes), (2, 2, 8));
        assert_eq!(pool.commit(&begun.id).unwrap().1.bodies.len(), 2);
        for refused in
            [pool.append(&begun.id, body(), 1).err(), pool.commit(&begun.id).err(), pool.abort(&begun.id).err()]
        {
            assert_eq!(refused.unwrap().0.code, "conflict");
        }
        pool.clear();
        assert_eq!(pool.list().len(), 1, "what is being committed is left alone");
        pool.reopen(&begun.id);
        assert_eq!(pool.commit(&begun.id).unwrap().1.bodies.len(), 2);
        pool.close(&begun.id);
        assert_eq!(pool.get(&begun.id).unwrap_err().0.code, "not_found");
    }

    #[test]
    fn one_that_is_forgotten_times_out_by_itself() {
        let pool = Arc::new(Pool::default());
        let begun = pool.begin("t", &BeginRequest { ttl_seconds: Some(1), ..BeginRequest::default() }).unwrap();
        pool.append(&begun.id, body(), 1).unwrap();
        let end = std::time::Instant::now() + Duration::from_secs(20);
        // Looks without the sweep that every other call makes.
        while !pool.state.lock().unwrap().open.is_empty() {
            assert!(std::time::Instant::now() < end);
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    #[test]
    fn what_cannot_be_begun_is_refused_by_field() {
        let pool = Arc::new(Pool::default());
        let field = |request: BeginRequest| pool.begin("t", &request).unwrap_err().0.column.unwrap();
        let of = |operation: &str| BeginRequest { operation: Some(operation.to_owned()), ..BeginRequest::default() };
        assert_eq!(field(of("merge")), "operation");
        assert_eq!(field(of("delete_partition")), "operation");
        assert_eq!(field(BeginRequest { ttl_seconds: Some(0), ..BeginRequest::default() }), "ttl_seconds");
        assert_eq!(field(BeginRequest { index: Some("x".to_owned()), ..BeginRequest::default() }), "index");
        let settings = BTreeMap::from([("spark.x".to_owned(), "1".to_owned())]);
        assert_eq!(field(BeginRequest { settings, ..BeginRequest::default() }), "spark.x");
        for _ in 0..OPEN_MAX {
            pool.begin("t", &BeginRequest::default()).unwrap();
        }
        assert_eq!(pool.begin("t", &BeginRequest::default()).unwrap_err().0.code, "too_many_writes");
        pool.clear();
        assert!(pool.list().is_empty());
    }
}
