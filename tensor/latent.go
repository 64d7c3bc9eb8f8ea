package tensor

// Latents are what a latent of H bits a position needs (Fleuret 2025, The Free Transformer).
// Logits are F32 [N H]: bit h of a row is 1 with probability sigmoid(logit).
type Latents interface {
	// SampleSigns: signs (F32 [N H]) = 1 or -1, for bits 1 and 0. Bit h of row n depends on its
	// logit, on key and on (first[0]+n)*H + h only; first is I64 [1].
	SampleSigns(signs Out, logits *Tensor, key RandKey, first *Tensor)
	// SignCodes: codes (I32 [N]) = the sum of 2^h over the signs [N H] that are positive. H is
	// at most 30.
	SignCodes(codes Out, signs *Tensor)
	// SignsBackward: dlogits [N H] = 2 sigmoid'(logits) * dsigns [N H]: the gradient of the
	// signs' expectation.
	SignsBackward(dlogits Out, dsigns, logits *Tensor)
	// CodesBackward: dlogits [N H] += the gradient of the sum over codes c in [low, low+C) of
	// dcodes[n, c-low] * P(code c), dcodes being F32 [N C]. C is a power of two that divides low.
	CodesBackward(dlogits InOut, dcodes, logits *Tensor, low int)
	// FreeBits measures how far each row's bits are from fair coins: KL = sum over h of ln 2 -
	// entropy(sigmoid(logit)), in nats. Over rows whose label (I32 [N]) is not negative it adds
	// to sums (F64 [3]) max(0, KL-free), KL, and KL in bits. dlogits [N H] = the gradient of the
	// first.
	FreeBits(sums InOut, dlogits Out, logits, labels *Tensor, free float64)
	// AddSum: dst (F64 [1]) += the elements of x (F64 [n]), in order.
	AddSum(dst InOut, x *Tensor)
}
