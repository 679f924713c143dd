// The preload shim: gets Tidepool into a process by LD_PRELOAD, before PyTorch reads its settings.
// It moves Tidepool's keys out of PyTorch's allocator settings and learns of `import torch` through
// a Python audit hook, or attaches before `main` in a program that is linked with LibTorch;
// threads.c and libtorch_calls.c are its other parts. Plain C, libc only: it is mapped into every
// program that the job starts, so for those it must cost nothing and say nothing.
//
// Invariants:
// (1) without a TIDEPOOL_ setting or a `tidepool` key nothing happens but forwarding;
// (2) nothing is written to standard output, and no Python error is left behind;
// (3) a variable that the user set (TIDEPOOL_*) is never overwritten.
// Thread safety: the constructor and what stands before `main` run alone; the audit hook runs under
// Python's lock. Nothing is held across a fork.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "bindings/preload/shim.h"

enum { kStatusWithout = 2 };  // of a process that ends as it cannot have Tidepool; kWatcher too

// ---- settings -----------------------------------------------------------------------------------

// A part of a settings string, not NUL-terminated.
typedef struct {
  const char* begin;
  size_t length;
} Text;

static int is_blank(char c) { return c == ' ' || c == '\t'; }

static Text trimmed(Text text) {
  while (text.length > 0 && is_blank(text.begin[0])) {
    text.begin++;
    text.length--;
  }
  while (text.length > 0 && is_blank(text.begin[text.length - 1])) text.length--;
  return text;
}

static int equals(Text text, const char* word) {
  return text.length == strlen(word) && memcmp(text.begin, word, text.length) == 0;
}

// The item that starts at `at`, up to the next comma outside of brackets (values may be lists).
static Text next_item(const char* at) {
  int depth = 0;
  size_t length = 0;
  for (; at[length] != '\0' && (depth > 0 || at[length] != ','); length++) {
    if (at[length] == '[') depth++;
    if (at[length] == ']' && depth > 0) depth--;
  }
  return (Text){at, length};
}

static void split(Text item, Text* key, Text* value) {
  const char* colon = memchr(item.begin, ':', item.length);
  size_t key_length = colon ? (size_t)(colon - item.begin) : item.length;
  *key = trimmed((Text){item.begin, key_length});
  *value = (Text){item.begin + item.length, 0};
  if (colon) *value = trimmed((Text){colon + 1, item.length - key_length - 1});
}

static int is_ours(Text key, Text value) {
  static const char kPrefix[] = "tidepool_";
  const size_t length = sizeof kPrefix - 1;
  if (equals(key, "backend")) return equals(value, "tidepool");
  return key.length > length && memcmp(key.begin, kPrefix, length) == 0;
}

// Puts one of our items into the environment: `tidepool_budget:8GiB` becomes TIDEPOOL_BUDGET=8GiB.
static void publish(Text key, Text value) {
  static const char kBackend[] = "tidepool_backend";
  if (equals(key, "backend")) key = (Text){kBackend, sizeof kBackend - 1};
  char* name = strndup(key.begin, key.length);
  char* text = strndup(value.begin, value.length);
  if (name && text) {
    for (char* c = name; *c; c++) {
      if (*c >= 'a' && *c <= 'z') *c = (char)(*c - 'a' + 'A');
    }
    setenv(name, text, 0);
  }
  free(name);
  free(text);
}

// Moves our items out of one settings variable. PyTorch fails on a backend that it does not know,
// so an item of ours must be gone before it looks.
static void rewrite_settings(const char* variable) {
  const char* old = getenv(variable);
  if (!old || !strstr(old, "tidepool")) return;
  char* source = strdup(old);  // setenv may move what getenv returned
  char* kept = malloc(strlen(old) + 1);
  if (source && kept) {
    size_t kept_length = 0;
    int moved = 0;
    for (const char* at = source; *at;) {
      Text item = next_item(at), key, value;
      split(item, &key, &value);
      if (is_ours(key, value)) {
        publish(key, value);
        moved = 1;
      } else if (item.length > 0) {
        if (kept_length > 0) kept[kept_length++] = ',';
        memcpy(kept + kept_length, item.begin, item.length);
        kept_length += item.length;
      }
      at += item.length;
      if (*at == ',') at++;
    }
    kept[kept_length] = '\0';
    if (moved && kept_length > 0) setenv(variable, kept, 1);
    if (moved && kept_length == 0) unsetenv(variable);
  }
  free(source);
  free(kept);
}

// Whether a process that cannot have Tidepool must end (`_settings.required` says the same).
static int is_required(void) {
  static const char* const kNo[] = {"", "0", "false", "no", "off"};
  const char* text = getenv("TIDEPOOL_REQUIRED");
  for (size_t i = 0; text && i < sizeof kNo / sizeof kNo[0]; i++) {
    if (strcasecmp(text, kNo[i]) == 0) return 0;
  }
  return text != NULL;
}

static int is_asked_for(void) {
  for (char** entry = environ; entry && *entry; entry++) {
    if (strncmp(*entry, "TIDEPOOL_", sizeof "TIDEPOOL_" - 1) == 0) return 1;
  }
  return 0;
}

// ---- import of torch ----------------------------------------------------------------------------

// An entry of Python's table of built-in modules, `struct _inittab`.
typedef struct {
  const char* name;
  void* (*start)(void);
} BuiltinModule;

// What we need of Python, by dlsym: the program may be any Python from 3.9 on, or none.
static struct {
  void* (*tuple_get_item)(void*, ssize_t);
  const char* (*as_utf8)(void*);
  void* (*decode_path)(const char*);
  void* (*dict_new)(void);
  int (*dict_set)(void*, const char*, void*);
  void* (*builtins)(void);
  void* (*run)(const char*, int, void*, void*);
  void (*release)(void*);
  void (*error_clear)(void);
  int (*add_audit_hook)(int (*)(const char*, void*, void*), void*);
  void* (*interpreter)(void);
  int64_t (*interpreter_id)(void*);
  BuiltinModule** builtin_modules;
} python;

// Runs in the job's interpreter: waits for `torch` and then hands over to the package that lies
// around the shim. The package is found by its folder, so -I, -E, -S and Pythons of other
// environments work. `tidepool_folder` is defined by the caller.
static const char kWatcher[] =
    "import sys\n"
    "\n"
    "def complain(error):\n"
    "    import os\n"
    "    required = os.environ.get('TIDEPOOL_REQUIRED', '').strip().lower()\n"
    "    required = required not in ('', '0', 'false', 'no', 'off')\n"
    "    if sys.stderr:\n"
    "        sys.stderr.write('tidepool: %s: %s: %s\\n' % (\n"
    "            'this process ends, as the budget cannot be kept' if required\n"
    "            else 'running without Tidepool', type(error).__name__, error))\n"
    "    if required:\n"
    "        for stream in filter(None, (sys.stdout, sys.stderr)):\n"
    "            stream.flush()\n"
    "        os._exit(2)\n"
    "\n"
    "def package():\n"
    "    import importlib.util, os\n"
    "    module = sys.modules.get('tidepool')\n"
    "    start = os.path.join(tidepool_folder, '__init__.py')\n"
    "    if module is None and os.path.isfile(start):\n"
    "        spec = importlib.util.spec_from_file_location(\n"
    "            'tidepool', start, submodule_search_locations=[tidepool_folder])\n"
    "        module = importlib.util.module_from_spec(spec)\n"
    "        sys.modules['tidepool'] = module\n"
    "        try:\n"
    "            spec.loader.exec_module(module)\n"
    "        except BaseException:\n"
    "            sys.modules.pop('tidepool', None)\n"
    "            raise\n"
    "    import tidepool._autoload\n"
    "    return tidepool\n"
    "\n"
    "class TidepoolImportWatcher:\n"
    "    searching = False\n"
    "\n"
    "    def find_spec(self, name, path=None, target=None):\n"
    "        if name != 'torch' or self.searching:\n"
    "            return None\n"
    "        self.searching = True\n"
    "        try:\n"
    "            spec = None\n"
    "            for finder in list(sys.meta_path):\n"
    "                if finder is not self and hasattr(finder, 'find_spec'):\n"
    "                    spec = finder.find_spec(name, path, target)\n"
    "                    if spec is not None:\n"
    "                        break\n"
    "        finally:\n"
    "            self.searching = False\n"
    "        try:\n"
    "            if spec is not None:\n"
    "                self.watch(spec.loader)\n"
    "        except Exception as error:\n"
    "            complain(error)\n"
    "        return spec\n"
    "\n"
    "    def watch(self, loader):\n"
    "        run = loader.exec_module\n"
    "        def exec_module(module):\n"
    "            loader.__dict__.pop('exec_module', None)\n"
    "            run(module)\n"
    "            try:\n"
    "                if self in sys.meta_path:\n"
    "                    sys.meta_path.remove(self)\n"
    "                package()._autoload.attach_from_environment()\n"
    "            except Exception as error:\n"
    "                complain(error)\n"
    "        loader.exec_module = exec_module\n"
    "\n"
    "kinds = [type(finder).__name__ for finder in sys.meta_path]\n"
    "if 'torch' not in sys.modules and 'TidepoolImportWatcher' not in kinds:\n"
    "    sys.meta_path.insert(0, TidepoolImportWatcher())\n";

static int find_python(void) {
  struct {
    void* slot;
    const char* name;
  } wanted[] = {
      {&python.tuple_get_item, "PyTuple_GetItem"},
      {&python.as_utf8, "PyUnicode_AsUTF8"},
      {&python.decode_path, "PyUnicode_DecodeFSDefault"},
      {&python.dict_new, "PyDict_New"},
      {&python.dict_set, "PyDict_SetItemString"},
      {&python.builtins, "PyEval_GetBuiltins"},
      {&python.run, "PyRun_String"},
      {&python.release, "Py_DecRef"},
      {&python.error_clear, "PyErr_Clear"},
      {&python.add_audit_hook, "PySys_AddAuditHook"},
      {&python.interpreter, "PyInterpreterState_Get"},
      {&python.interpreter_id, "PyInterpreterState_GetID"},
      {&python.builtin_modules, "PyImport_Inittab"},
  };
  for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
    void* symbol = dlsym(RTLD_DEFAULT, wanted[i].name);
    if (!symbol) return 0;
    memcpy(wanted[i].slot, &symbol, sizeof symbol);
  }
  return 1;
}

// The package's folder as a Python string: the shim is <package>/lib/libtidepool_preload.so.
static void* package_folder(void) {
  Dl_info here;
  if (!dladdr((void*)&is_asked_for, &here) || !here.dli_fname) return NULL;
  char* path = realpath(here.dli_fname, NULL);
  void* folder = NULL;
  if (path) {
    for (int up = 0; up < 2; up++) {
      char* slash = strrchr(path, '/');
      if (slash) *slash = '\0';
    }
    folder = python.decode_path(path);
  }
  free(path);
  return folder;
}

static int install_watcher(void) {
  enum { kFileInput = 257 };  // Py_file_input: a whole program, not one expression
  void* folder = package_folder();
  void* globals = python.dict_new();
  void* result = NULL;
  if (folder && globals && python.dict_set(globals, "__builtins__", python.builtins()) == 0 &&
      python.dict_set(globals, "tidepool_folder", folder) == 0) {
    result = python.run(kWatcher, kFileInput, globals, globals);
  }
  int ok = result != NULL;
  if (!ok) python.error_clear();
  if (result) python.release(result);
  if (globals) python.release(globals);
  if (folder) python.release(folder);
  return ok;
}

static atomic_int is_listening;

// Python's audit hook. `importlib` counts as well: importlib.import_module("torch") raises no event
// of its own, but whoever calls it has imported importlib before. Each interpreter of the process
// has finders of its own.
static int on_audit(const char* event, void* arguments, void* unused) {
  enum { kNone = -1 };
  static _Atomic(int64_t) watched = kNone;  // the interpreter where torch is waited for
  (void)unused;
  if (strcmp(event, "cpython._PySys_ClearAuditHooks") == 0) {
    atomic_store(&is_listening, 0);
    atomic_store(&watched, kNone);
  }
  if (event[0] != 'i' || strcmp(event, "import") != 0) return 0;
  void* name_object = python.tuple_get_item(arguments, 0);
  const char* name = name_object ? python.as_utf8(name_object) : NULL;
  if (!name) {
    python.error_clear();
    return 0;
  }
  int is_torch = strncmp(name, "torch", 5) == 0 && (name[5] == '\0' || name[5] == '.');
  if (!is_torch && strcmp(name, "importlib") != 0) return 0;
  const int64_t interpreter = python.interpreter_id(python.interpreter());
  if (atomic_exchange(&watched, interpreter) == interpreter) return 0;
  if (install_watcher()) return 0;
  if (is_torch) {
    fputs("tidepool: cannot watch for the import of torch: ", stderr);
    if (is_required()) {
      fputs("this process ends, as the budget cannot be kept\n", stderr);
      fflush(NULL);
      _exit(kStatusWithout);
    }
    fputs("running without Tidepool\n", stderr);
  } else {
    atomic_store(&watched, kNone);  // once more when torch is imported, if it ever is
  }
  return 0;
}

static void* (*start_posix)(void);

// Starts Python's module `posix` and, once in a run of Python, our listening to its events.
static void* start_posix_and_listen(void) {
  if (!atomic_exchange(&is_listening, 1)) python.add_audit_hook(on_audit, NULL);
  return start_posix();
}

// Sees to it that we listen once Python is up. Until then no function of Python's may be called:
// what it keeps for us would come from an allocator other than the one that it frees it with at
// its exit, where -X dev or PYTHONMALLOC name one, and it would abort there. But its table of
// built-in modules may be changed, and whenever Python starts it starts `posix`.
static void listen_when_python_starts(void) {
  BuiltinModule* module = *python.builtin_modules;
  for (; module && module->name; module++) {
    if (strcmp(module->name, "posix") != 0) continue;
    start_posix = module->start;
    module->start = start_posix_and_listen;
    return;
  }
}

// ---- programs without Python -------------------------------------------------------------------

typedef int (*Main)(int, char**, char**);
typedef int (*StartMain)(Main, int, char**, Main, void (*)(void), void (*)(void), void*);

static Main program_main;

static void say_and_end_if_required(const char* problem) {
  const int ends = is_required();
  fprintf(stderr, "tidepool: %s: %s\n",
          ends ? "this process ends, as the budget cannot be kept" : "running without Tidepool",
          problem);
  if (!ends) return;
  fflush(NULL);
  _exit(kStatusWithout);
}

// Attaches by the library for C++ programs, which lies beside the shim. It says itself why it does
// not attach.
static void attach_program(void) {
  static const char kLibrary[] = "/libtidepool.so";
  char path[PATH_MAX + sizeof kLibrary];
  Dl_info here;
  if (!dladdr((void*)&is_asked_for, &here) || !here.dli_fname || !realpath(here.dli_fname, path)) {
    return say_and_end_if_required("the folder of the preload library is not known");
  }
  strcpy(strrchr(path, '/'), kLibrary);
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  void* symbol = library ? dlsym(library, "tidepool_enable_from_environment") : NULL;
  if (!symbol) return say_and_end_if_required(dlerror());
  int (*enable)(void);
  memcpy(&enable, &symbol, sizeof symbol);
  if (enable() == 0 || !is_required()) return;
  fflush(NULL);
  _exit(kStatusWithout);
}

static void cut_last_part(char* path) {
  char* slash = strrchr(path, '/');
  if (slash) *slash = '\0';
}

// Whether the program is the one by which PyTorch keeps shared memory by name, which a job may
// start and which has no tensors. It lies in the folder `bin` beside that of PyTorch's libraries.
static int is_of_pytorch(void* in_library) {
  static const char kName[] = "/bin/torch_shm_manager";
  char program[PATH_MAX], library[PATH_MAX + sizeof kName];
  Dl_info found;
  if (!realpath("/proc/self/exe", program)) return 0;
  if (!dladdr(in_library, &found) || !found.dli_fname || !realpath(found.dli_fname, library)) {
    return 0;
  }
  cut_last_part(library);
  cut_last_part(library);
  strcat(library, kName);
  return strcmp(program, library) == 0;
}

// Runs in the place of `main`: PyTorch's operators are registered by now.
static int attach_and_run(int count, char** arguments, char** environment) {
  void* in_library = dlsym(RTLD_DEFAULT, "aoti_torch_abi_version");
  if (in_library && !is_of_pytorch(in_library)) attach_program();
  return program_main(count, arguments, environment);
}

// Replaces the C library's, which calls `run`, the program's `main`. A program with Python in it is
// attached when it imports PyTorch.
TIDEPOOL_EXPORT int __libc_start_main(Main run, int count, char** arguments, Main start,
                                      void (*finish)(void), void (*finish_loader)(void),
                                      void* stack_end) {
  StartMain real;
  void* symbol = dlsym(RTLD_NEXT, "__libc_start_main");
  memcpy(&real, &symbol, sizeof symbol);
  program_main = run;
  if (is_asked_for() && !find_python()) run = attach_and_run;
  return real(run, count, arguments, start, finish, finish_loader, stack_end);
}

// ---- start --------------------------------------------------------------------------------------

__attribute__((constructor)) static void start(void) {
  rewrite_settings("PYTORCH_ALLOC_CONF");  // first: PyTorch prefers it as well
  rewrite_settings("PYTORCH_CUDA_ALLOC_CONF");
  if (!is_asked_for()) return;
  if (find_python()) listen_when_python_starts();
}
