//! What each service is declared with: its RPCs, their messages, and what is answered. Knows no RPC.

/// A service of the driver. Each RPC has its messages and an expression for its reply, in which the driver and the request have the
/// names that are given first.
macro_rules! service {
    ($service:ident($core:ident, $request:ident) {
        $($rpc:ident($asked:ident) -> $replied:ty = $reply:expr;)*
    }) => {
        #[tonic::async_trait]
        impl $service for Core {
            $(async fn $rpc(
                &self,
                request: tonic::Request<$asked>,
            ) -> Result<tonic::Response<$replied>, Status> {
                let ($core, $request) = (self, request.into_inner());
                // Some ask for nothing.
                let _ = &$request;
                Ok(tonic::Response::new($reply))
            })*
        }
    };
}
pub(crate) use service;

/// What the function of the driver returns. An error is worded as the driver words errors, which may tell the secrets.
macro_rules! answer {
    ($core:ident, $request:ident, $call:ident) => {{
        let secrets = $request.secrets.clone();
        let result = $core.$call($request).await;
        result.map_err(|status| $core.worded(status, &secrets))?
    }};
}
pub(crate) use answer;
