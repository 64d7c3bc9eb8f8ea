// A plug-in without devices for tests: macros make it old, short or failing, and its client calls the
// key-value store from several threads as the options say.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pjrt_c_api.h"

#ifndef MAJOR
#define MAJOR PJRT_API_MAJOR
#endif
#ifndef MINOR
#define MINOR PJRT_API_MINOR
#endif
#ifndef TABLE
#define TABLE sizeof(PJRT_Api)
#endif

struct PJRT_Error {
  PJRT_Error_Code code;
  char message[256];
};

static PJRT_Error* fail(PJRT_Error_Code code, const char* message, size_t n) {
  PJRT_Error* e = malloc(sizeof *e);
  e->code = code;
  snprintf(e->message, sizeof e->message, "%.*s", (int)n, message);
  return e;
}

static PJRT_CallbackError callback_error = fail;

static void error_destroy(PJRT_Error_Destroy_Args* a) { free(a->error); }
static void error_message(PJRT_Error_Message_Args* a) {
  a->message = a->error->message;
  a->message_size = strlen(a->message);
}
static PJRT_Error* error_code(PJRT_Error_GetCode_Args* a) {
  a->code = a->error->code;
  return NULL;
}

static PJRT_Error* initialize(PJRT_Plugin_Initialize_Args* a) {
#ifdef REFUSES
  return fail(PJRT_Error_Code_FAILED_PRECONDITION, "no driver", 9);
#endif
  return NULL;
}

static PJRT_Error* put(PJRT_Client_Create_Args* c, const char* key, size_t n, const char* value, size_t size) {
  PJRT_KeyValuePutCallback_Args a = {.struct_size = sizeof a, .key = key, .key_size = n, .value = value,
    .value_size = size, .callback_error = &callback_error, .user_arg = c->kv_put_user_arg};
  return c->kv_put_callback(&a);
}

// get compares the value with want, unless that is NULL.
static PJRT_Error* get(PJRT_Client_Create_Args* c, const char* key, size_t n, const char* want, size_t size) {
  PJRT_KeyValueGetCallback_Args a = {.struct_size = sizeof a, .key = key, .key_size = n, .timeout_in_ms = 30,
    .callback_error = &callback_error, .user_arg = c->kv_get_user_arg};
  PJRT_Error* e = c->kv_get_callback(&a);
  if (e != NULL) return e;
  int same = want == NULL || (a.value_size == size && memcmp(a.value, want, size) == 0);
  a.value_deleter_callback(a.value);
  return same ? NULL : fail(PJRT_Error_Code_DATA_LOSS, "get: other value", 16);
}

static PJRT_Error* try_get(PJRT_Client_Create_Args* c, const char* key, size_t n) {
  PJRT_KeyValueTryGetCallback_Args a = {.struct_size = sizeof a, .key = key, .key_size = n,
    .callback_error = &callback_error, .user_arg = c->kv_try_get_user_arg};
  PJRT_Error* e = c->kv_try_get_callback(&a);
  if (e == NULL) a.value_deleter_callback(a.value);
  return e;
}

struct thread {
  pthread_t id;
  int n;
  PJRT_Client_Create_Args* c;
  PJRT_Error* error;
};

// run puts and gets binary values of all lengths, in a thread that Go did not start.
static void* run(void* arg) {
  struct thread* t = arg;
  char key[32], value[64];
  for (int i = 0; i < 50 && t->error == NULL; i++) {
    int n = snprintf(key, sizeof key, "thread %d", t->n) + 1;  // with the zero
    memset(value, t->n * 50 + i, sizeof value);
    value[i / 2] = 0;
    if ((t->error = try_get(t->c, "none", 4)) != NULL && t->error->code == PJRT_Error_Code_NOT_FOUND) {
      free(t->error);
      t->error = NULL;
    }
    if (t->error == NULL) t->error = put(t->c, key, n, value, i);
    if (t->error == NULL) t->error = get(t->c, key, n, value, i);
    if (t->error == NULL) t->error = try_get(t->c, key, n);
  }
  return NULL;
}

// create does what the options name: "threads" (an integer), "get", "try_get", "put" (a key).
static PJRT_Error* create(PJRT_Client_Create_Args* c) {
  for (size_t i = 0; i < c->num_options; i++) {
    const PJRT_NamedValue* o = &c->create_options[i];
#define IS(s) (o->name_size == strlen(s) && memcmp(o->name, s, o->name_size) == 0)
    PJRT_Error* e = NULL;
    if (IS("get")) e = get(c, o->string_value, o->value_size, NULL, 0);
    if (IS("try_get")) e = try_get(c, o->string_value, o->value_size);
    if (IS("put")) e = put(c, o->string_value, o->value_size, "", 0);
    if (IS("list")) {
      for (size_t k = 0; k < o->value_size; k++)
        if (o->int64_array_value[k] != (int64_t)k - 1) e = fail(PJRT_Error_Code_DATA_LOSS, "list", 4);
    }
    if (IS("float") && o->float_value != 0.5f) e = fail(PJRT_Error_Code_DATA_LOSS, "float", 5);
    if (IS("bool") && !o->bool_value) e = fail(PJRT_Error_Code_DATA_LOSS, "bool", 4);
    if (IS("threads")) {
      struct thread t[16] = {0};
      for (int k = 0; k < o->int64_value; k++) {
        t[k].n = k;
        t[k].c = c;
        pthread_create(&t[k].id, NULL, run, &t[k]);
      }
      for (int k = 0; k < o->int64_value; k++) {
        pthread_join(t[k].id, NULL);
        if (t[k].error != NULL) e = t[k].error;
      }
    }
    if (e != NULL) return e;
  }
  static int client;
  c->client = (PJRT_Client*)&client;
  return NULL;
}

static PJRT_Error* destroy(PJRT_Client_Destroy_Args* a) { return NULL; }
static PJRT_Error* name(PJRT_Client_PlatformName_Args* a) {
  a->platform_name = "fake";
  a->platform_name_size = 4;
  return NULL;
}
static PJRT_Error* version(PJRT_Client_PlatformVersion_Args* a) { return NULL; }
static PJRT_Error* process(PJRT_Client_ProcessIndex_Args* a) { return NULL; }
static PJRT_Error* devices(PJRT_Client_AddressableDevices_Args* a) { return NULL; }

const PJRT_Api* GetPjrtApi(void) {
#ifdef NO_TABLE
  return NULL;
#endif
  static PJRT_Api api = {
    .struct_size = TABLE,
    .pjrt_api_version = {.struct_size = sizeof(PJRT_Api_Version), .major_version = MAJOR, .minor_version = MINOR},
    .PJRT_Error_Destroy = error_destroy,
    .PJRT_Error_Message = error_message,
    .PJRT_Error_GetCode = error_code,
    .PJRT_Plugin_Initialize = initialize,
    .PJRT_Client_Create = create,
    .PJRT_Client_Destroy = destroy,
    .PJRT_Client_PlatformName = name,
    .PJRT_Client_PlatformVersion = version,
    .PJRT_Client_ProcessIndex = process,
    .PJRT_Client_AddressableDevices = devices,
  };
  return &api;
}
