//! Axes: from values to places, and which values are written.

/// How values are laid out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Scale {
    /// Equal differences are equally far apart.
    Linear,
    /// Equal ratios are.
    Log,
}

/// An axis.
pub(super) struct Axis {
    /// The quantity, with its unit.
    pub(super) title: String,
    /// How a value is written.
    pub(super) write: fn(f64) -> String,
    /// Values that are written at it, ascending.
    pub(super) ticks: Vec<f64>,
    scale: Scale,
    min: f64,
    max: f64,
}

impl Axis {
    /// From a round value at or below the least of `values` to one at or above the greatest: powers
    /// of ten, or where those would be few also their doubles and fives.
    pub(super) fn decades(title: &str, write: fn(f64) -> String, values: impl Iterator<Item = f64>) -> Self {
        // As many ticks as tell a reader where he is.
        const FEW_DECADES: f64 = 2.0;
        let (min, max) = bounds(values.filter(|value| *value > 0.0)).unwrap_or((1.0, 10.0));
        let rounds = if (max / min).log10() > FEW_DECADES - 1e-9 { &[1.0][..] } else { &[1.0, 2.0, 5.0] };
        // A number that is a power of ten but for rounding counts as one.
        let first = (min.log10() + 1e-9).floor() as i32;
        let last = (max.log10() - 1e-9).ceil() as i32 + 1;
        let all: Vec<_> =
            (first..=last).flat_map(|power| rounds.iter().map(move |it| it * 10f64.powi(power))).collect();
        let from = all.iter().rposition(|tick| *tick <= min * (1.0 + 1e-9)).unwrap_or(0);
        let to = all.iter().position(|tick| *tick >= max * (1.0 - 1e-9)).unwrap_or(all.len() - 1);
        Self::new(title, write, all[from..=to.max(from + 1)].to_vec(), Scale::Log)
    }

    /// Powers of two from 1 to the greatest of `values`.
    pub(super) fn doublings(
        title: &str,
        write: fn(f64) -> String,
        values: impl Iterator<Item = f64>,
    ) -> Self {
        let max = bounds(values).map_or(2.0, |(_, max)| max.max(2.0));
        let ticks = (0..=max.log2().ceil() as i32).map(|power| 2f64.powi(power)).collect();
        Self::new(title, write, ticks, Scale::Log)
    }

    /// From zero, or from `floor`, to a round value at or above the greatest of `values`.
    pub(super) fn linear(
        title: &str,
        write: fn(f64) -> String,
        floor: f64,
        values: impl Iterator<Item = f64>,
    ) -> Self {
        let max = bounds(values).map_or(floor + 1.0, |(_, max)| max);
        let step = round_step((max - floor).max(f64::MIN_POSITIVE) / 5.0);
        let steps = ((max - floor) / step - 1e-9).ceil().max(1.0) as u32;
        let ticks = (0..=steps).map(|index| floor + f64::from(index) * step).collect();
        Self::new(title, write, ticks, Scale::Linear)
    }

    fn new(title: &str, write: fn(f64) -> String, ticks: Vec<f64>, scale: Scale) -> Self {
        let (min, max) = (ticks[0], ticks[ticks.len() - 1]);
        Self { title: title.into(), write, ticks, scale, min, max }
    }

    /// Where `value` is: 0 at the beginning of the axis, 1 at its end.
    pub(super) fn place(&self, value: f64) -> f64 {
        let place = match self.scale {
            Scale::Linear => (value - self.min) / (self.max - self.min),
            Scale::Log => (value.max(self.min) / self.min).ln() / (self.max / self.min).ln(),
        };
        place.clamp(0.0, 1.0)
    }

    /// Returns no more than so many of its ticks, at equal distances.
    pub(super) fn sparse(&self, most: usize) -> Vec<f64> {
        let step = self.ticks.len().div_ceil(most.max(1));
        self.ticks.iter().step_by(step).copied().collect()
    }
}

fn bounds(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.fold(None, |bounds, value| match bounds {
        None => Some((value, value)),
        Some((min, max)) => Some((value.min(min), value.max(max))),
    })
}

/// 1, 2 or 5 times a power of ten, at or above `step`.
fn round_step(step: f64) -> f64 {
    let power = 10f64.powf(step.log10().floor());
    let rounds = [1.0, 2.0, 5.0, 10.0];
    power * rounds.into_iter().find(|round| round * power >= step * (1.0 - 1e-9)).unwrap_or(10.0)
}

#[cfg(test)]
mod tests {
    use super::super::units::digits;
    use super::*;

    #[test]
    fn ticks_are_round_and_hold_all_values() {
        let values = || [32.0, 4500.0].into_iter();
        assert_eq!(Axis::decades("", digits, values()).ticks, [10.0, 100.0, 1000.0, 10_000.0]);
        let few = Axis::decades("", digits, [10.0, 450.0].into_iter());
        assert_eq!(few.ticks, [10.0, 20.0, 50.0, 100.0, 200.0, 500.0]);
        assert_eq!(
            Axis::linear("", digits, 0.0, values()).ticks,
            [0.0, 1000.0, 2000.0, 3000.0, 4000.0, 5000.0]
        );
        assert_eq!(Axis::linear("", digits, 1.0, [1.35].into_iter()).ticks.len(), 5);
        assert_eq!(Axis::doublings("", digits, [1.0, 6.0].into_iter()).ticks, [1.0, 2.0, 4.0, 8.0]);
        for empty in
            [Axis::decades("", digits, std::iter::empty()), Axis::linear("", digits, 0.0, [0.0].into_iter())]
        {
            assert!(empty.ticks.len() >= 2 && empty.place(0.0) == 0.0);
        }
    }

    #[test]
    fn places_are_between_the_ends() {
        let axis = Axis::decades("", digits, [10.0, 1000.0].into_iter());
        for (value, place) in [(10.0, 0.0), (100.0, 0.5), (1000.0, 1.0), (0.0, 0.0), (1e9, 1.0)] {
            assert!((axis.place(value) - place).abs() < 1e-12, "{value}");
        }
        assert_eq!(axis.sparse(2), [10.0, 1000.0]);
    }
}
