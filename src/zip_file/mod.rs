//! Zip files, in which programs are stored: read with limits, and written with the same bits for the same
//! members.

#[cfg(not(feature = "import"))]
mod absent;
#[cfg(feature = "import")]
mod read;
#[cfg(feature = "import")]
mod write;

#[cfg(not(feature = "import"))]
pub(crate) use self::absent::{ZipFile, write};
#[cfg(feature = "import")]
pub(crate) use self::read::ZipFile;
#[cfg(feature = "import")]
pub(crate) use self::write::write;
