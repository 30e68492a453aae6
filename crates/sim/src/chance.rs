//! Dice that fall the same way for the same seed.

#[derive(Clone, Debug)]
pub struct Chance(u64);

impl Chance {
    pub const fn of(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits (`splitmix64`).
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `limit`, which is not 0.
    pub fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.bits() % u64::try_from(limit).unwrap()).unwrap()
    }

    /// Puts items into any order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}
