//! The table of an RPC's replies, as each RPC declares it. Data only: nothing here prints.

/// The rows and columns of a reply.
#[derive(Clone, Copy, Debug)]
pub struct View {
    /// The repeated field of which every element is a row; empty where the reply is the one row.
    pub rows: &'static str,
    /// The columns in order.
    pub columns: &'static [Column],
    /// The path of what `-o name` prints, from the row.
    pub name: &'static str,
    /// The word for an empty reply, such as `deleted`.
    pub done: &'static str,
    /// What the rows add up to.
    pub sum: Option<Sum>,
}

/// What the rows of one call add up to.
#[derive(Clone, Copy, Debug)]
pub struct Sum {
    /// The path of the bytes that are added, from the row.
    pub part: &'static str,
    /// The path of the bytes that they are a part of.
    pub whole: &'static str,
    /// The word for a row.
    pub noun: &'static str,
}

impl View {
    /// A view with one row for each reply.
    pub const fn new(columns: &'static [Column]) -> Self {
        Self {
            rows: "",
            columns,
            name: "",
            done: "",
            sum: None,
        }
    }

    /// A reply without content: `done` says what has happened to the subject.
    pub const fn done(done: &'static str) -> Self {
        let mut view = Self::new(&[]);
        view.done = done;
        view
    }

    /// A row for every element of this field.
    pub const fn rows(mut self, field: &'static str) -> Self {
        self.rows = field;
        self
    }

    /// Adds the rows of a call up.
    pub const fn sum(mut self, sum: Sum) -> Self {
        self.sum = Some(sum);
        self
    }

    /// Sets the path of the text that `-o name` prints.
    pub const fn name(mut self, path: &'static str) -> Self {
        self.name = path;
        self
    }
}

/// A column of a table.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// The head, in upper case.
    pub head: &'static str,
    /// The path from the row, or from the whole reply when it begins with `/`.
    pub path: &'static str,
    /// The format of the value.
    pub format: CellFormat,
    /// Whether only `-o wide` (and `--columns`) shows it.
    pub wide: bool,
}

/// The format of a value in a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CellFormat {
    /// The value without change.
    Plain,
    /// Bytes as 10Gi.
    Size,
    /// A number in the row's own `unit`: bytes as 10Gi, all else as it is.
    Usage,
    /// A time as its age.
    Age,
    /// A volume condition as `ok` or `abnormal: why`.
    Condition,
    /// Whether the message is there at all.
    Presence,
    /// A truth value whose absence the specification defines as true.
    Ready,
}

/// A column that shows its value as it is.
pub const fn text(head: &'static str, path: &'static str) -> Column {
    Column {
        head,
        path,
        format: CellFormat::Plain,
        wide: false,
    }
}

/// A column of bytes.
pub const fn size(head: &'static str, path: &'static str) -> Column {
    text(head, path).format(CellFormat::Size)
}

impl Column {
    /// The head as it is typed, such as `volume-id`.
    pub fn typed(&self) -> String {
        self.head.to_lowercase().replace(' ', "-")
    }

    /// Another way to write the value.
    pub const fn format(mut self, format: CellFormat) -> Self {
        self.format = format;
        self
    }

    /// Only for `-o wide`.
    pub const fn wide(mut self) -> Self {
        self.wide = true;
        self
    }
}

/// The names of a service's capabilities, one a row.
pub const CAPABILITIES: View = View::new(&[text("CAPABILITY", "rpc.type")])
    .rows("capabilities")
    .name("rpc.type");
