//! Demands of calls that may be answered in more than one way, or that should or must be refused, and the wording of answers.

use super::context::{Context, encoded};
use super::verdict::{Stop, Verdict, any_of, same_code, status_text};
use csi_proto::Request;
use std::time::Duration;
use tonic::{Code, Status};

impl Context {
    /// Sends a request, which must be answered with OK or one of these codes; the reply of OK.
    ///
    /// # Errors
    /// When it is answered with another code, or as [`Context::send`].
    pub fn ok_or<Q: Request>(&self, request: Q, codes: &[Code]) -> Result<Option<Q::Reply>, Stop> {
        let answer = self.exchange_for(Q::METHOD, encoded(&request), codes)?;
        match self.decoded::<Q>(answer)? {
            Ok(reply) => Ok(Some(reply)),
            Err(status) if codes.contains(&status.code()) => Ok(None),
            Err(status) => {
                let expected = format!("{} answers OK or {}", Q::METHOD.name, any_of(codes));
                Err(Stop::failed(expected, status_text(&status)))
            }
        }
    }

    /// Sends a request that should be refused with one of the codes: OK is a warning, another code a failure.
    ///
    /// # Errors
    /// When it is answered with another code, or as [`Context::send`].
    pub fn should_refuse<Q: Request>(&self, request: Q, codes: &[Code], expected: &str) -> Verdict {
        match self.exchange_to_refuse(Q::METHOD, encoded(&request), codes)? {
            Ok(_) => self.should(false, expected, "it answered OK"),
            Err(status) => same_code(&status, codes, expected)?,
        }
        Ok(())
    }

    /// Sends a request that should be refused with one of the codes; any other answer is a warning.
    ///
    /// # Errors
    /// As [`Context::send`].
    pub fn should_answer<Q: Request>(&self, request: Q, codes: &[Code], expected: &str) -> Verdict {
        let answer = self.send(request)?;
        let actual = answer_text(&answer);
        let refused = answer.is_err_and(|status| codes.contains(&status.code()));
        self.should(refused, expected, actual);
        Ok(())
    }

    /// Sends a request that should be refused, whatever the code: OK is a warning.
    ///
    /// # Errors
    /// As [`Context::send`].
    pub fn should_fail<Q: Request>(&self, request: Q, expected: &str) -> Verdict {
        let answer = self.send(request)?;
        self.should(answer.is_err(), expected, answer_text(&answer));
        Ok(())
    }

    /// Sends a request that must be refused, best with one of the codes: another one is a warning.
    ///
    /// # Errors
    /// When it is answered with OK, or as [`Context::send`].
    pub fn must_fail<Q: Request>(&self, request: Q, best: &[Code]) -> Verdict {
        let rpc = Q::METHOD.name;
        match self.send(request)? {
            Ok(_) => Err(Stop::failed(format!("{rpc} is refused"), "it answered OK")),
            Err(status) => {
                let is_best = best.contains(&status.code());
                let expected = format!("{rpc} answers {}", any_of(best));
                self.should(is_best, expected, status_text(&status));
                Ok(())
            }
        }
    }

    /// Sends a request about a volume that does not exist, which must be refused, best with NOT_FOUND.
    ///
    /// # Errors
    /// As [`Context::refused`].
    pub fn best_not_found<Q: Request>(&self, request: Q) -> Verdict {
        let codes = [
            Code::NotFound,
            Code::InvalidArgument,
            Code::FailedPrecondition,
        ];
        let status = self.refused(request, &codes)?;
        let expected = format!("{} answers NOT_FOUND", Q::METHOD.name);
        let is_best = status.code() == Code::NotFound;
        self.should(is_best, expected, status_text(&status));
        Ok(())
    }

    /// Sends a request, gives the call up after a while, and repeats it: it must be OK then.
    ///
    /// # Errors
    /// As [`Context::cancelled`] and [`Context::ok`].
    pub fn given_up<Q: Request + Clone>(
        &self,
        request: Q,
        after: Duration,
    ) -> Result<Q::Reply, Stop> {
        self.cancelled(request.clone(), after)?;
        self.ok(request)
    }
}

/// Demands of the answer to a call that met another one: OK or ABORTED; the reply of OK.
pub fn ok_or_aborted<R>(answer: Result<R, Status>) -> Result<Option<R>, Stop> {
    match answer {
        Ok(reply) => Ok(Some(reply)),
        Err(status) if status.code() == Code::Aborted => Ok(None),
        Err(status) => Err(Stop::failed("OK or ABORTED", status_text(&status))),
    }
}

/// An answer as the second half of a failure.
pub fn answer_text<R>(answer: &Result<R, Status>) -> String {
    answer
        .as_ref()
        .err()
        .map_or("it answered OK".to_owned(), status_text)
}
