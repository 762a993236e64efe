// An NVML of long ago without a GPU, for tests: it has only what is here. It is compiled by the tests.
#include <stdio.h>
#include <string.h>

enum { SUCCESS = 0, INVALID_ARGUMENT = 2 };
struct memory { unsigned long long total, free, used; };

int nvmlInit_v2(void) { return SUCCESS; }
int nvmlShutdown(void) { return SUCCESS; }
const char *nvmlErrorString(int r) { return r == INVALID_ARGUMENT ? "a bad argument" : "some error"; }
int nvmlSystemGetDriverVersion(char *text, unsigned n) { snprintf(text, n, "470.1"); return SUCCESS; }
int nvmlDeviceGetCount_v2(unsigned *n) { *n = 1; return SUCCESS; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **device) { *device = (void *)0x1234; return i ? INVALID_ARGUMENT : SUCCESS; }
int nvmlDeviceGetHandleByUUID(const char *uuid, void **device) {
	*device = (void *)0x1234;
	return strcmp(uuid, "GPU-old") ? INVALID_ARGUMENT : SUCCESS;
}
int nvmlDeviceGetUUID(void *device, char *text, unsigned n) { snprintf(text, n, "GPU-old"); return device == (void *)0x1234 ? SUCCESS : INVALID_ARGUMENT; }
int nvmlDeviceGetName(void *device, char *text, unsigned n) { snprintf(text, n, "Old GPU"); return SUCCESS; }
int nvmlDeviceGetMemoryInfo(void *device, struct memory *m) { m->total = 5ull << 32; m->free = 3ull << 32; m->used = 2ull << 32; return SUCCESS; }
