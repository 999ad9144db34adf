//! From values and problems to responses, and from request bodies to values.

use crate::control::problem::{Failure, MEDIA_TYPE, Problem};
use crate::control::server::Limits;
use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// What a route answers with.
pub type Answer = std::result::Result<Response, Failure>;

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        // A problem is strings and one number: it always serializes.
        let body = serde_json::to_vec(&self).unwrap_or_default();
        (status, [(header::CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE))], body).into_response()
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        self.0.into_response()
    }
}

/// A JSON document with a status.
pub fn json(status: StatusCode, value: &impl Serialize) -> Answer {
    let mut body = serde_json::to_vec(value)
        .map_err(|e| Problem::new("internal", format!("an answer does not serialize: {e}")))?;
    body.push(b'\n');
    Ok((status, [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))], body).into_response())
}

/// A text of some media type.
pub fn text(media_type: &'static str, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    response
}

/// Reads a JSON body within the limits; no body at all is the default value.
pub async fn body<T: DeserializeOwned + Default>(
    request: axum::extract::Request,
    limits: Limits,
) -> Result<T, Failure> {
    let media_type = request.headers().get(header::CONTENT_TYPE).cloned();
    let collected = axum::body::to_bytes(request.into_body(), limits.body_bytes);
    let bytes = match tokio::time::timeout(limits.body_time, collected).await {
        Err(_) => {
            let message = format!("the body did not arrive within {} s", limits.body_time.as_secs_f32());
            return Err(Problem::new("timeout", message).into());
        }
        Ok(Err(error)) if is_length_limit(&error) => {
            let message = format!("the body is larger than {} bytes", limits.body_bytes);
            return Err(Problem::new("body_too_large", message).into());
        }
        Ok(Err(error)) => return Err(Problem::new("invalid", format!("the body cannot be read: {error}")).into()),
        Ok(Ok(bytes)) => bytes,
    };
    if bytes.is_empty() {
        return Ok(T::default());
    }
    check_media_type(media_type.as_ref())?;
    serde_json::from_slice(&bytes).map_err(|e| {
        Problem::new("invalid", format!("the body is not what this path takes: {e}"))
            .hint("GET /openapi.json describes every body")
            .into()
    })
}

fn is_length_limit(error: &axum::Error) -> bool {
    let mut cause: Option<&dyn std::error::Error> = Some(error);
    while let Some(error) = cause {
        if error.is::<http_body_util::LengthLimitError>() {
            return true;
        }
        cause = error.source();
    }
    false
}

fn check_media_type(value: Option<&HeaderValue>) -> Result<(), Failure> {
    let Some(value) = value else { return Ok(()) };
    let text = value.to_str().unwrap_or_default();
    let essence = text.split(';').next().unwrap_or_default().trim();
    if essence.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    Err(Problem::new("unsupported_media_type", format!("the body's type is {text:?}"))
        .hint("send JSON: -H 'Content-Type: application/json'")
        .into())
}
