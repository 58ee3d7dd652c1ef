//! The macro that makes the enum of defects from their names and comments. It must not know a single defect.

macro_rules! defects {
    ($($(#[doc = $what:literal])+ $name:ident,)+) => {
        /// A mistake in the driver.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Defect {
            $($(#[doc = $what])+ $name,)+
        }

        impl Defect {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// Its name.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)+
                }
            }

            /// What is wrong, in one sentence.
            pub fn sentence(self) -> &'static str {
                match self {
                    $(Self::$name => concat!($($what),+).trim_ascii(),)+
                }
            }
        }
    };
}

pub(crate) use defects;
