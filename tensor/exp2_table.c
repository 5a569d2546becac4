#include "tensor/kern.h"

#include "tensor/f16.h"

#include <math.h>

void kern_exp2_table(uint16_t table[KERN_EXP2_ENTRIES])
{
	const unsigned infinity = 0x7c00;

	for (unsigned i = 0; i < KERN_EXP2_ENTRIES; i++) {
		const double x = -(double)f16_to_f32((uint16_t)i);

		table[i] = i > infinity ? 0 : f32_to_f16((float)exp2(x));
	}
}
