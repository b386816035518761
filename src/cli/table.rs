//! Tables and quantities for people.

use std::fmt;
use std::time::Duration;

/// Blanks between columns.
const GAP: usize = 2;

/// Rows of cells, each column as wide as its widest cell. Columns of numbers are aligned to the right.
#[derive(Debug, Default)]
pub(super) struct Table {
    rows: Vec<Vec<String>>,
    /// Whether the first row is a heading.
    headed: bool,
}

impl Table {
    /// Without a heading.
    pub(super) fn plain() -> Self {
        Self::default()
    }

    /// With names of the columns.
    pub(super) fn new<const N: usize>(names: [&str; N]) -> Self {
        Self { rows: vec![names.map(str::to_owned).to_vec()], headed: true }
    }

    /// Adds a row.
    pub(super) fn row<const N: usize>(&mut self, cells: [String; N]) {
        // A line break would tear the table.
        self.rows.push(cells.map(|cell| cell.replace(['\r', '\n'], " ")).to_vec());
    }

    fn columns(&self) -> Vec<Column> {
        let count = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let column = |index: usize| {
            let width = self.rows.iter().filter_map(|row| row.get(index)).map(|cell| cell.chars().count()).max();
            let mut values = self.rows.iter().skip(usize::from(self.headed)).filter_map(|row| row.get(index));
            Column { width: width.unwrap_or(0), right: self.headed && values.all(|cell| is_quantity(cell)) }
        };
        (0..count).map(column).collect()
    }
}

struct Column {
    width: usize,
    right: bool,
}

/// A number, with a unit at most, or the sign for none.
fn is_quantity(cell: &str) -> bool {
    cell == "-" || cell.strip_prefix('-').unwrap_or(cell).starts_with(|first: char| first.is_ascii_digit())
}

/// All lines but the end of the last one.
impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.columns();
        for (number, row) in self.rows.iter().enumerate() {
            let mut line = String::new();
            for (cell, column) in row.iter().zip(&columns) {
                let padding = " ".repeat(column.width - cell.chars().count());
                let (before, after) = if column.right { (&*padding, "") } else { ("", &*padding) };
                line.extend([before, cell, after, &" ".repeat(GAP)]);
            }
            let end = if number == 0 { "" } else { "\n" };
            write!(f, "{end}{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// `1.5 GiB`.
pub(super) fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut shown = format!("{bytes} B");
    let mut divisor = 1u64;
    for unit in UNITS {
        divisor <<= 10;
        if bytes < divisor {
            break;
        }
        let tenths = u128::from(bytes) * 10 / u128::from(divisor);
        shown = format!("{}.{} {unit}", tenths / 10, tenths % 10);
    }
    shown
}

/// `3 d 04:05:06`.
pub(super) fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    format!("{} d {:02}:{:02}:{:02}", seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60)
}

/// `1 topic`, `2 topics`.
pub(super) fn counted(count: u64, one: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{count} {one}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell_and_numbers_stand_at_the_right() {
        let mut table = Table::new(["TOPIC", "BYTES", "REMARKS"]);
        table.row(["orders".into(), "7 B".into(), String::new()]);
        table.row(["größe".into(), "1.0 KiB".into(), "two\nlines".into()]);
        assert_eq!(table.to_string(), "TOPIC     BYTES  REMARKS\norders      7 B\ngröße   1.0 KiB  two lines");
    }

    #[test]
    fn quantities_have_units() {
        assert_eq!([0, 1, 2].map(|count| counted(count, "run")), ["0 runs", "1 run", "2 runs"]);
        let shown = [0, 1023, 1024, 1536, 1 << 30, u64::MAX].map(bytes);
        assert_eq!(shown, ["0 B", "1023 B", "1.0 KiB", "1.5 KiB", "1.0 GiB", "16383.9 PiB"]);
        assert_eq!(duration(Duration::from_secs(2 * 86_400 + 3_661)), "2 d 01:01:01");
    }
}
