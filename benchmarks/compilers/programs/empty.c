/* Its executed instructions are those of the start and the end of every program. */
#include "suite.h"

void run(int size) { mix((uint64_t)size); }
