// A driver without a GPU, for tests: the functions of libcuda.so.1 that the project uses, with memory on the host, a kernel
// "add_one" in every module that names it, and faults on demand. It is compiled by the tests.
//
// FAKE_CUDA, or a call of fake_configure, holds items with semicolons between: devices=2, version=12080, and faults
// such as cuMemAlloc_v2:3=2 (the third call returns 2) or cuInit:1+=100 (all calls from the first).
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int result;
typedef uint64_t ptr;
enum { SUCCESS = 0, INVALID_VALUE = 1, NOT_INITIALIZED = 3, INVALID_DEVICE = 101, INVALID_CONTEXT = 201, INVALID_PTX = 218,
       NOT_FOUND = 500, OUT_OF_RESOURCES = 701 };

struct fault { char name[64]; int from, to, code; };
struct counter { char name[64]; int calls; };
struct context { int references, poison, live; };
struct module { char *image; };
struct event { uint64_t ns; };
struct launch { uint32_t *data; uint32_t n; };
struct graph { struct launch launches[64]; int n; };
struct stream { struct graph *capture; };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct fault faults[16];
static struct counter counters[128];
static struct context contexts[16];
static int devices = 2, version = 12080, initialised, live;
static uint64_t clock_ns;
static __thread struct context *current;

// fake_configure starts over with a plan.
void fake_configure(const char *plan) {
	char text[1024];
	snprintf(text, sizeof text, "%s", plan);
	memset(faults, 0, sizeof faults);
	memset(counters, 0, sizeof counters);
	memset(contexts, 0, sizeof contexts);
	devices = 2, version = 12080, initialised = 0, live = 0;
	int n = 0;
	char *rest = text, *item;
	while ((item = strsep(&rest, ";")) != NULL) {
		struct fault f = {.to = 0};
		if (sscanf(item, "devices=%d", &devices) == 1 || sscanf(item, "version=%d", &version) == 1)
			continue;
		if (sscanf(item, "%63[^:]:%d+=%d", f.name, &f.from, &f.code) == 3)
			f.to = 1 << 30;
		else if (sscanf(item, "%63[^:]:%d=%d", f.name, &f.from, &f.code) == 3)
			f.to = f.from;
		if (f.to && n < 16)
			faults[n++] = f;
	}
}

__attribute__((constructor)) static void start(void) {
	const char *plan = getenv("FAKE_CUDA");
	fake_configure(plan ? plan : "");
}

// fake_live counts what was made and not released: memory, streams, events, modules, graphs and contexts.
int fake_live(void) { return live; }

// fake_calls counts the calls of a function.
int fake_calls(const char *name) {
	for (int i = 0; i < 128; i++)
		if (!strcmp(counters[i].name, name))
			return counters[i].calls;
	return 0;
}

static int sticky(int r) { return r == 700 || r == 702 || r == 710 || (r >= 714 && r <= 719) || r == 214; }

// enter counts a call and returns its fault, if it has one.
static result enter(const char *name, int needs_context) {
	pthread_mutex_lock(&lock);
	int i = 0, code = SUCCESS;
	while (i < 127 && counters[i].name[0] && strcmp(counters[i].name, name))
		i++;
	strcpy(counters[i].name, name);
	int call = ++counters[i].calls;
	for (int f = 0; f < 16; f++)
		if (!strcmp(faults[f].name, name) && call >= faults[f].from && call <= faults[f].to)
			code = faults[f].code;
	if (!code && !initialised && strcmp(name, "cuInit"))
		code = NOT_INITIALIZED;
	if (!code && needs_context && !current)
		code = INVALID_CONTEXT;
	if (needs_context && current) {
		if (current->poison)
			code = current->poison;
		if (sticky(code))
			current->poison = code;
	}
	pthread_mutex_unlock(&lock);
	return code;
}

#define ENTER(needs_context) do { result r_ = enter(__func__, needs_context); if (r_) return r_; } while (0)
static void made(int n) { // in the current context
	__atomic_add_fetch(&current->live, n, __ATOMIC_SEQ_CST);
	__atomic_add_fetch(&live, n, __ATOMIC_SEQ_CST);
}
static int ordinal(void) { return (int)(current - contexts); }
static uint64_t total(int device) { return (uint64_t)(device + 1) << 30; }

result cuInit(unsigned flags) { ENTER(0); initialised = 1; return flags ? INVALID_VALUE : SUCCESS; }
result cuDriverGetVersion(int *v) { ENTER(0); *v = version; return SUCCESS; }
result cuDeviceGetCount(int *n) { ENTER(0); *n = devices; return SUCCESS; }
result cuDeviceGet(int *dev, int i) { ENTER(0); *dev = i; return i < devices ? SUCCESS : INVALID_DEVICE; }
result cuDeviceGetName(char *name, int n, int dev) { ENTER(0); snprintf(name, n, "Fake GPU %c", 'A' + dev); return SUCCESS; }
result cuDeviceGetUuid_v2(unsigned char *id, int dev) { ENTER(0); memset(id, 0x10 + dev, 16); return SUCCESS; }
result cuDeviceGetPCIBusId(char *id, int n, int dev) { ENTER(0); snprintf(id, n, "0000:%02X:00.0", 0x80 + dev); return SUCCESS; }
result cuDeviceTotalMem_v2(size_t *bytes, int dev) { ENTER(0); *bytes = total(dev); return SUCCESS; }
result cuDeviceCanAccessPeer(int *can, int dev, int peer) { ENTER(0); *can = dev != peer; return SUCCESS; }
result cuDeviceGetAttribute(int *v, int attribute, int dev) {
	ENTER(0);
	switch (attribute) {
	case 16: *v = 100 + dev; return SUCCESS;
	case 41: *v = 0; return SUCCESS;
	case 75: *v = 9; return SUCCESS;
	case 76: *v = 0; return SUCCESS;
	case 115: *v = -99; return INVALID_VALUE; // a driver that does not know the attribute
	}
	*v = 1000 + attribute;
	return SUCCESS;
}
result cuGetErrorName(int r, const char **text) {
	switch (r) {
	case 2: *text = "CUDA_ERROR_OUT_OF_MEMORY"; return SUCCESS;
	case 700: *text = "CUDA_ERROR_ILLEGAL_ADDRESS"; return SUCCESS;
	}
	return INVALID_VALUE;
}
result cuGetErrorString(int r, const char **text) { *text = r == 2 ? "out of memory" : NULL; return r == 2 ? SUCCESS : INVALID_VALUE; }

result cuDevicePrimaryCtxRetain(struct context **ctx, int dev) {
	ENTER(0);
	*ctx = &contexts[dev];
	if ((*ctx)->references++ == 0)
		live++;
	return SUCCESS;
}
result cuDevicePrimaryCtxRelease_v2(int dev) {
	ENTER(0);
	if (contexts[dev].references == 0)
		return INVALID_CONTEXT;
	if (--contexts[dev].references == 0)
		live--;
	return SUCCESS;
}
result cuDevicePrimaryCtxReset_v2(int dev) {
	ENTER(0);
	contexts[dev].poison = 0;
	live -= contexts[dev].live;
	contexts[dev].live = 0;
	return SUCCESS;
}
result cuCtxSetCurrent(struct context *ctx) { ENTER(0); current = ctx; return SUCCESS; }
result cuCtxGetCurrent(struct context **ctx) { ENTER(0); *ctx = current; return SUCCESS; }
result cuCtxSynchronize(void) { ENTER(1); return SUCCESS; }

result cuMemGetInfo_v2(size_t *free_, size_t *total_) { ENTER(1); *total_ = total(ordinal()); *free_ = *total_ / 2; return SUCCESS; }
result cuMemAlloc_v2(ptr *p, size_t bytes) {
	ENTER(1);
	if (bytes == 0)
		return INVALID_VALUE;
	*p = (ptr)(uintptr_t)malloc(bytes);
	made(1);
	return SUCCESS;
}
result cuMemFree_v2(ptr p) { ENTER(1); free((void *)(uintptr_t)p); made(-1); return SUCCESS; }
result cuMemcpyHtoD_v2(ptr to, const void *from, size_t n) { ENTER(1); memcpy((void *)(uintptr_t)to, from, n); return SUCCESS; }
result cuMemcpyDtoH_v2(void *to, ptr from, size_t n) { ENTER(1); memcpy(to, (void *)(uintptr_t)from, n); return SUCCESS; }
result cuMemcpyDtoD_v2(ptr to, ptr from, size_t n) { ENTER(1); memcpy((void *)(uintptr_t)to, (void *)(uintptr_t)from, n); return SUCCESS; }
result cuMemcpyHtoDAsync_v2(ptr to, const void *from, size_t n, struct stream *s) { ENTER(1); memcpy((void *)(uintptr_t)to, from, n); return SUCCESS; }
result cuMemcpyDtoHAsync_v2(void *to, ptr from, size_t n, struct stream *s) { ENTER(1); memcpy(to, (void *)(uintptr_t)from, n); return SUCCESS; }
result cuMemcpyDtoDAsync_v2(ptr to, ptr from, size_t n, struct stream *s) { ENTER(1); memcpy((void *)(uintptr_t)to, (void *)(uintptr_t)from, n); return SUCCESS; }
result cuMemsetD8Async(ptr p, unsigned char v, size_t n, struct stream *s) { ENTER(1); memset((void *)(uintptr_t)p, v, n); return SUCCESS; }
result cuMemsetD32Async(ptr p, unsigned v, size_t n, struct stream *s) {
	ENTER(1);
	for (size_t i = 0; i < n; i++)
		((uint32_t *)(uintptr_t)p)[i] = v;
	return SUCCESS;
}
// Optional functions: what arrives is given back, so that a test sees the order and width of the arguments.
result cuMemAddressReserve(ptr *p, size_t bytes, size_t alignment, ptr hint, unsigned long long flags) {
	ENTER(1);
	*p = bytes + 10 * alignment + 100 * hint + 1000 * flags;
	return SUCCESS;
}
result cuMemcpyPeerAsync(ptr to, void *to_context, ptr from, void *from_context, size_t n, struct stream *s) {
	ENTER(1);
	return to == 1 && (uintptr_t)to_context == 2 && from == 3 && (uintptr_t)from_context == 4 && n == 5 ? SUCCESS : INVALID_VALUE;
}

result cuStreamCreate(struct stream **s, unsigned flags) { ENTER(1); *s = calloc(1, sizeof **s); made(1); return flags == 1 ? SUCCESS : INVALID_VALUE; }
result cuStreamDestroy_v2(struct stream *s) { ENTER(1); free(s); made(-1); return SUCCESS; }
result cuStreamSynchronize(struct stream *s) { ENTER(1); return SUCCESS; }
result cuStreamQuery(struct stream *s) { ENTER(1); return SUCCESS; }
result cuStreamWaitEvent(struct stream *s, struct event *e, unsigned flags) { ENTER(1); return SUCCESS; }
result cuStreamBeginCapture_v2(struct stream *s, unsigned mode) { ENTER(1); s->capture = calloc(1, sizeof(struct graph)); return SUCCESS; }
result cuStreamEndCapture(struct stream *s, struct graph **g) { ENTER(1); *g = s->capture; s->capture = NULL; made(1); return SUCCESS; }
result cuGraphInstantiateWithFlags(struct graph **exec, struct graph *g, unsigned long long flags) {
	ENTER(1);
	*exec = malloc(sizeof **exec);
	**exec = *g;
	made(1);
	return SUCCESS;
}
result cuGraphDestroy(struct graph *g) { ENTER(1); free(g); made(-1); return SUCCESS; }
result cuGraphExecDestroy(struct graph *g) { ENTER(1); free(g); made(-1); return SUCCESS; }

static void add_one(struct launch l) {
	for (uint32_t i = 0; i < l.n; i++)
		l.data[i]++;
	clock_ns += 2000;
}
result cuGraphLaunch(struct graph *g, struct stream *s) {
	ENTER(1);
	for (int i = 0; i < g->n; i++)
		add_one(g->launches[i]);
	return SUCCESS;
}

result cuEventCreate(struct event **e, unsigned flags) { ENTER(1); *e = calloc(1, sizeof **e); made(1); return SUCCESS; }
result cuEventDestroy_v2(struct event *e) { ENTER(1); free(e); made(-1); return SUCCESS; }
result cuEventRecord(struct event *e, struct stream *s) { ENTER(1); e->ns = clock_ns; return SUCCESS; }
result cuEventQuery(struct event *e) { ENTER(1); return SUCCESS; }
result cuEventSynchronize(struct event *e) { ENTER(1); return SUCCESS; }
result cuEventElapsedTime(float *ms, struct event *a, struct event *b) { ENTER(1); *ms = (float)(b->ns - a->ns) * 1e-6f; return SUCCESS; }

result cuModuleLoadDataEx(struct module **m, const char *image, unsigned n, const int *options, void **values) {
	char *log = NULL;
	size_t room = 0;
	for (unsigned i = 0; i < n; i++) {
		if (options[i] == 5)
			log = values[i];
		if (options[i] == 6)
			room = (size_t)values[i];
	}
	result r = enter(__func__, 1);
	if (!r && strstr(image, "bogus"))
		r = INVALID_PTX;
	if (r) {
		if (log)
			snprintf(log, room, "ptxas application ptx input, line 3; error   : Unknown symbol 'bogus'\nptxas fatal   : Ptx assembly aborted due to errors\n");
		return r;
	}
	*m = malloc(sizeof **m);
	(*m)->image = strdup(image);
	made(1);
	return SUCCESS;
}
result cuModuleUnload(struct module *m) { ENTER(1); free(m->image); free(m); made(-1); return SUCCESS; }
result cuModuleGetFunction(void **f, struct module *m, const char *name) {
	ENTER(1);
	*f = m;
	return strstr(m->image, name) ? SUCCESS : NOT_FOUND;
}
result cuFuncGetAttribute(int *v, int attribute, void *f) { ENTER(1); *v = attribute == 4 ? 32 : 0; return SUCCESS; }
result cuFuncSetAttribute(void *f, int attribute, int v) { ENTER(1); return attribute == 8 && v == 65536 ? SUCCESS : INVALID_VALUE; }
result cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, void *f, int threads, size_t shared) { ENTER(1); *blocks = 2048 / threads; return SUCCESS; }
result cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                      struct stream *s, void **params, void **extra) {
	ENTER(1);
	if (gx != 1 || gy != 2 || gz != 3 || bx != 4 || by != 5 || bz != 6 || shared != 7 || params)
		return INVALID_VALUE;
	if (!extra || extra[0] != (void *)1 || extra[2] != (void *)2 || extra[4])
		return INVALID_VALUE;
	if (*(size_t *)extra[3] != 12)
		return OUT_OF_RESOURCES;
	struct launch l;
	memcpy(&l.data, extra[1], 8);
	memcpy(&l.n, (char *)extra[1] + 8, 4);
	if (s->capture)
		s->capture->launches[s->capture->n++] = l;
	else
		add_one(l);
	return SUCCESS;
}
