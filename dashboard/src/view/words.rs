//! Times, counts and commands in the words of a person.

use jiff::Timestamp;

/// How long ago something was: `38 s`, `4 min`, `3 h`, `21 d`.
pub fn age(from: Timestamp, now: Timestamp) -> String {
    let seconds = now.duration_since(from).as_secs().max(0);
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min", seconds / 60),
        3_600..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// How long something took.
pub fn took(milliseconds: i64) -> String {
    match milliseconds {
        ..1_000 => format!("{milliseconds} ms"),
        1_000..60_000 => format!("{}.{} s", milliseconds / 1_000, milliseconds % 1_000 / 100),
        _ => format!("{} min", milliseconds / 60_000),
    }
}

/// A count of addresses that a person can read: `254`, `65 536`, `2⁶⁴`, `about 10¹²`.
pub fn count(number: u128) -> String {
    if number >= 1_000_000 {
        if number.is_power_of_two() {
            return format!("2{}", raised(number.ilog2()));
        }
        // The sum of a range that was cut at the end of the type.
        if number == u128::MAX {
            return format!("2{}", raised(128));
        }
        let nearest = number.checked_next_power_of_two();
        if let Some(power) = nearest.filter(|power| (power - number) < power >> 16) {
            return format!("about 2{}", raised(power.ilog2()));
        }
        if number >= 1_000_000_000_000 {
            return format!("about 10{}", raised(number.ilog10()));
        }
    }
    let digits = number.to_string();
    let first = digits.len() % 3;
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && place % 3 == first && digits.len() > 4 {
            // A thin space that does not break.
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

fn raised(number: u32) -> String {
    const DIGITS: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    let digits = number.to_string();
    digits.chars().filter_map(|digit| DIGITS.get(digit.to_digit(10)? as usize)).collect()
}

/// `1 address`, `2 addresses`.
pub fn many(count: usize, one: &str, more: &str) -> String {
    format!("{} {}", self::count(count as u128), if count == 1 { one } else { more })
}

/// A word of a shell command. Names of objects need no quotes; what is no name gets them, whatever it holds.
pub fn quoted(word: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    if !word.is_empty() && !word.starts_with('-') && word.bytes().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(0, "0 s")]
    #[case(59, "59 s")]
    #[case(60, "1 min")]
    #[case(7_199, "1 h")]
    #[case(172_800, "2 d")]
    #[case(-5, "0 s")]
    fn ages(#[case] seconds: i64, #[case] expected: &str) {
        let now = Timestamp::from_second(1_000_000).unwrap();
        assert_eq!(age(Timestamp::from_second(1_000_000 - seconds).unwrap(), now), expected);
    }

    #[rstest]
    #[case(7, "7")]
    #[case(1_024, "1024")]
    #[case(65_536, "65\u{202f}536")]
    #[case(123_456, "123\u{202f}456")]
    #[case(1 << 64, "2⁶⁴")]
    #[case((1 << 64) - 12, "about 2⁶⁴")]
    #[case(u128::MAX, "2¹²⁸")]
    #[case(3 << 64, "about 10¹⁹")]
    fn counts(#[case] number: u128, #[case] expected: &str) {
        assert_eq!(count(number), expected);
    }

    #[rstest]
    #[case("tenant-a", "tenant-a")]
    #[case("", "''")]
    #[case("a; rm -rf /", "'a; rm -rf /'")]
    #[case("it's", r"'it'\''s'")]
    #[case("--all", "'--all'")]
    #[case("$(x)`y`", "'$(x)`y`'")]
    fn hostile_names_stay_one_word_of_a_command(#[case] word: &str, #[case] expected: &str) {
        assert_eq!(quoted(word), expected);
    }
}
