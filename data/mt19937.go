package data

// mt19937 is the Mersenne Twister of Matsumoto and Nishimura (1998) with 32-bit output, seeded as
// in PyTorch's CPU generator: with the low 32 bits of the seed.
type mt19937 struct {
	state [624]uint32
	next  int
}

func newMT19937(seed uint32) *mt19937 {
	m := &mt19937{next: 624}
	m.state[0] = seed
	for i := uint32(1); i < 624; i++ {
		prev := m.state[i-1]
		m.state[i] = 1812433253*(prev^prev>>30) + i
	}
	return m
}

func (m *mt19937) uint32() uint32 {
	if m.next == 624 {
		m.twist()
	}
	y := m.state[m.next]
	m.next++
	y ^= y >> 11
	y ^= y << 7 & 0x9d2c5680
	y ^= y << 15 & 0xefc60000
	return y ^ y>>18
}

func (m *mt19937) twist() {
	for i := range m.state {
		y := m.state[i]&0x80000000 | m.state[(i+1)%624]&0x7fffffff
		v := m.state[(i+397)%624] ^ y>>1
		if y&1 != 0 {
			v ^= 0x9908b0df
		}
		m.state[i] = v
	}
	m.next = 0
}
