package measuretest

import "time"

// Model is a named host: noise that belongs together.
type Model struct {
	Name  string
	Noise []Noise
}

// SharedHost is a small virtual machine with neighbours, the ordinary case: 2.5 % jitter, one sample in 16 bad by
// a factor of 1.3 to 2.1 in either direction, 5 % slow drift, and bursts a third slower that fill an eleventh of the time.
func SharedHost() []Noise {
	return []Noise{
		Jitter(0.025),
		Spikes(16, 0.5),
		Drift(0.05, 3*time.Second),
		Bursts(200*time.Millisecond, 20*time.Millisecond, 1.33),
	}
}

// Models returns the hosts that everything which decides under noise should be tried on, each kind of noise alone and
// all the usual ones together.
func Models() []Model {
	jitter := Jitter(0.02)
	return []Model{
		{"quiet", []Noise{Jitter(0.005)}},
		{"jitter", []Noise{Jitter(0.03)}},
		{"spikes", []Noise{jitter, Spikes(16, 0.5)}},
		{"drift", []Noise{jitter, Drift(0.10, time.Second)}},
		{"bursts", []Noise{jitter, Bursts(100*time.Millisecond, 20*time.Millisecond, 1.5)}},
		{"warm-up", []Noise{jitter, WarmUp(1, 500)}},
		{"throttled", []Noise{jitter, Throttle(70*time.Millisecond, 100*time.Millisecond)}},
		{"stolen", []Noise{jitter, Steal(100*time.Millisecond, 10*time.Millisecond)}},
		{"bimodal", []Noise{jitter, Bimodal(0.3, 1.15)}},
		{"shared host", SharedHost()},
	}
}
