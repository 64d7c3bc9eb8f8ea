# Makes conversations.json and expressions.json; see README.md.
import json
from pathlib import Path

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

HERE = Path(__file__).parent


class Generation(Extension):
    """Puts \x01 and \x02 around what stands between generation marks."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.CallBlock(self.call_method("mark"), [], [], body).set_lineno(line)

    def mark(self, caller):
        return "\x01" + caller() + "\x02"


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
env.filters["tojson"] = tojson
env.globals["raise_exception"] = raise_exception
env.globals["strftime_now"] = lambda format: "26 Jul 2024"


def render(template, variables):
    try:
        marked = env.from_string(template).render(**variables)
    except Exception as e:
        return {"error": f"{type(e).__name__}: {e}"}
    text, marks, start = "", [], 0
    for c in marked:
        if c == "\x01":
            start = len(text.encode())
        elif c == "\x02":
            marks.append([start, len(text.encode())])
        else:
            text += c
    return {"text": text, **({"marks": marks} if marks else {})}


CONVERSATIONS = json.loads(r"""{
"plain":[{"role":"user","content":"Hello, how are you?"},{"role":"assistant","content":" I'm fine.\n"},{"role":"user","content":"Show me <b>\"quotes\" & 'apostrophes'é中"},{"role":"assistant","content":"ok"}],
"open":[{"role":"user","content":"Hello"}],
"system":[{"role":"system","content":"  Be terse.\n"},{"role":"user","content":"a"},{"role":"assistant","content":"b"}],
"think":[{"role":"user","content":"q"},{"role":"assistant","content":"<think>\nhm\n</think>\n\nanswer"},{"role":"user","content":"q2"},{"role":"assistant","content":"<think>\nhm2\n</think>\n\nanswer2"}],
"tool":[{"role":"user","content":"weather?"},{"role":"assistant","content":null,"tool_calls":[{"type":"function","function":{"name":"get","arguments":{"city":"Zürich <x>","days":3,"deep":{"a":[1,2.5,null,true]}}}}]},{"role":"tool","content":"sunny"},{"role":"assistant","content":"It is sunny."}],
"parts":[{"role":"user","content":[{"type":"text","text":" part one "},{"type":"image"},{"type":"text","text":"two"}],"meta":{"b":1,"a":"x"}},{"role":"assistant","content":"yes"}],
"tools":[{"role":"user","content":"weather?"},{"role":"assistant","content":"","tool_calls":[{"id":"abcdefghi","type":"function","function":{"name":"get","arguments":{"unit":"C","city":"Oslo","days":{"to":3,"from":1}}}},{"type":"function","function":{"name":"now","arguments":{}}}]},{"role":"tool","name":"get","tool_call_id":"abcdefghi","content":"{\"sky\": \"gray\"}"},{"role":"assistant","content":"Gray."}],
"bad":[{"role":"user","content":"a"},{"role":"user","content":"b"}],
"skip":[{"role":"user","content":"a"},{"role":"skip","content":"b"},{"role":"assistant","content":"c"},{"role":"stop","content":"d"},{"role":"user","content":"e"}]
}""")

TOOLS = {"tools": json.loads(r"""[
{"type":"function","function":{"name":"get","description":"The weather \u00e0 la carte","parameters":{"type":"object","required":["unit","city"],"properties":{"unit":{"type":"string","enum":["C","F"]},"city":{"type":"string"},"days":{"type":"object","properties":{"to":{"type":"integer"},"from":{"type":"integer","default":1.0}}}}},"return":{"type":"string"}}},
{"function":{"parameters":{"type":"object","properties":{}},"name":"now","description":"A clock"},"type":"function"}
]""")}

VARIABLES = {"wild": {"z": 1, "a": {"y": 1, "b": 2}, "m": []}, "s": "Hello World", "e": "", "n": 7, "f": 2.5, "z": 0, "neg": -3, "t": True, "no": None, "l": [3,1,2], "d": {"a": 1, "b": {"c": "x"}, "items": 9}, "u": "é中😀\n\t'q'\"\\", "ls": ["b", "A", "c"], "lo": [{"r": "u", "n": 2},{"r": "a", "n": 1},{"r": "u"}], "w": "  pad  ", "big": 9007199254740993, "th": "a</think>b</think>c"}

# A template a line.
LINES = r'''
{{ s[0] }}|{{ s[-1] }}|{{ s[1:4] }}|{{ s[::-1] }}|{{ s[::2] }}|{{ s[20:] }}|{{ s[-3:] }}|{{ s[5:2] }}|{{ s[99] }}|
{{ u[0] }}{{ u[2] }}{{ u[1:3] }}{{ u | length }}{{ u[::-1] }}
{{ l[0] }}{{ l[-1] }}{{ l[1:] }}{{ l[::-1] }}{{ l[5] }}{{ l[:-1] }}{{ l[-2:1:-1] }}{{ l[10::-2] }}
{{ 1 + 2 * 3 - 4 / 2 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % -3 }} {{ -7 % 3 }}
{{ 1.5 + 1 }} {{ 10 / 5 }} {{ 1e16 }} {{ 1e15 }} {{ 0.0001 }} {{ 0.00001 }} {{ 123456789.123 }} {{ 1e300 * 10 }} {{ 3.0 // 2 }} {{ -3.5 % 2 }}
{{ true + 1 }} {{ True == 1 }} {{ false == 0 }} {{ 1 == 1.0 }} {{ "1" == 1 }} {{ none == false }} {{ [1] == [1.0] }} {{ (1,) == [1] }}
{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ "a" < "b" }} {{ [1,2] < [1,3] }} {{ 2 > 1 >= 1 }}
{{ "a" in s }} {{ "W" in s }} {{ 3 in l }} {{ "a" in d }} {{ "z" not in d }} {{ x in l }} {{ "" in "" }} {{ "a" in undef }}
{{ s ~ n ~ f ~ no ~ t ~ l ~ undef }}
{{ "a" * 3 }} {{ 3 * "ab" }} {{ [1] * 2 }} {{ l + [4] }} {{ (1,2) + (3,) }} {{ "x" * -1 }}|
{{ d.a }} {{ d['a'] }} {{ d.b.c }} {{ d['b']['c'] }} {{ d.zz }}| {{ d.get('zz') }} {{ d.get('zz', 5) }} {{ d['items'] }} {{ d.items() | list }} {{ d.keys() | list }} {{ d.values() | list }}
{{ not e }} {{ not s }} {{ e or s }} {{ s and n }} {{ e and n }}| {{ no or 'x' }} {{ z or no }}
{{ 'y' if t else 'n' }} {{ 'y' if z else 'n' }} {{ 'y' if z }}| {{ 'a' if z else 'b' if t else 'c' }}
{{ s.upper() }} {{ s.lower() }} {{ s.title() }} {{ "hELLO wORLD-x it's".title() }} {{ "hELLO".capitalize() }}
{{ w.strip() }}|{{ w.lstrip() }}|{{ w.rstrip() }}|{{ "xxaxx".strip("x") }}|{{ "xyaxy".lstrip("yx") }}|
{{ th.split('</think>') }} {{ th.split('</think>')[-1] }} {{ "a b  c ".split() }} {{ "a b  c ".split(' ') }} {{ "a,b,c".split(',', 1) }} {{ "a,b,c".rsplit(',', 1) }} {{ " a b c ".rsplit(none, 1) }} {{ " a b c ".split(none, 1) }} {{ "".split() }} {{ "".split(',') }}
{{ "abc".startswith("a") }} {{ "abc".endswith(("x","c")) }} {{ "abab".replace("a","x") }} {{ "abab".replace("a","x",1) }} {{ "aa".replace("","-") }}
{{ "-".join(ls) }} {{ ",".join("abc") }} {{ "a\nb\r\nc\n".splitlines() }} {{ "a\n\nb".splitlines(true) }}
{{ l | sort }} {{ l | sort(reverse=true) }} {{ ls | sort }} {{ ls | sort(case_sensitive=true) }} {{ lo | sort(attribute='r') | map(attribute='r') | list }}
{{ l | first }} {{ l | last }} {{ e | first }}| {{ s | first }} {{ s | last }} {{ l | length }} {{ l | count }} {{ d | length }} {{ undef | length }} {{ l | reverse | list }} {{ s | reverse }}
{{ ls | join }} {{ ls | join(', ') }} {{ l | join('-') }} {{ lo | join(',', attribute='r') }} {{ [1,none,'a',2.0] | join('|') }} {{ "abc" | join('.') }}
{{ lo | selectattr('r','equalto','u') | list | length }} {{ lo | selectattr('r','==','a') | map(attribute='n') | list }} {{ lo | selectattr('n') | list | length }} {{ lo | selectattr('n','defined') | list | length }} {{ lo | rejectattr('r','eq','u') | list }} {{ l | reject('greaterthan', 1) | list }} {{ [0,1,'',none] | select | list }} {{ l | select('in', [1,2]) | list }}
{{ ls | map('upper') | list }} {{ l | map('string') | join }} {{ lo | map(attribute='n', default=0) | list }} {{ ['a b'] | map('replace',' ','_') | list }} {{ [[1,2],[3]] | map('first') | list }}
{{ undef | default('x') }} {{ e | default('x') }}| {{ e | default('x', true) }} {{ e | d('y', boolean=true) }} {{ no | default('x') }} {{ d.q.q | default('x') if false else 'safe' }}
{{ "<a>" | string }} {{ 5 | string | length }} {{ "5" | int + 1 }} {{ "x" | int }} {{ "x" | int(9) }} {{ 2.9 | int }} {{ "2.9" | int }}
{{ "hello world" | capitalize }} {{ "hello world-foo (bar" | title }} {{ w | trim }} {{ "xxaxx" | trim('x') }} {{ s | lower | upper }}
{{ "a\nb\n\nc" | indent }}| {{ "a\nb\n\nc\n" | indent(2, true) }}| {{ "a\n\nb" | indent(2, blank=true) }} {{ "a\nb" | indent('> ') }}
{{ d | tojson }} {{ u | tojson }} {{ l | tojson(indent=2) }} {{ d | tojson(indent=4) }} {{ [1.0, 1e20, true, none, "é"] | tojson }} {{ u | tojson(ensure_ascii=true) }} {{ {'b':1,'a':[]} | tojson }} {{ {'b':1,'a':{}} | tojson(sort_keys=true, indent=1) }} {{ [1,2] | tojson(separators=(',',':')) }}
{{ d | dictsort }} {{ {'b':1,'A':2} | dictsort }} {{ {'b':1,'A':2} | dictsort(by='value') }} {{ {'b':1,'A':2} | items | list }}
{{ s is string }} {{ n is string }} {{ n is number }} {{ f is integer }} {{ n is integer }} {{ t is integer }} {{ t is boolean }} {{ f is float }} {{ d is mapping }} {{ l is mapping }} {{ l is iterable }} {{ s is iterable }} {{ n is iterable }} {{ l is sequence }} {{ d is sequence }} {{ no is none }} {{ undef is none }} {{ undef is defined }} {{ undef is undefined }} {{ d.zz is defined }} {{ no is defined }}
{{ n is eq 7 }} {{ n is gt 3 and n is lt 9 }} {{ 'a' is in ['a'] }} {{ t is true }} {{ 1 is true }} {{ s is not string }} {{ not s is string }}
{{ range(3) | list }} {{ range(2,5) | list }} {{ range(5,0,-2) | list }} {{ range(0) | list }}
{{ [1, 'a', none, true, 2.0, (1,), (), {'k': 'v'}] }} {{ ("it's") }} {{ ["it's", 'say "x"', u] }} {{ {} }} {{ {1: 2, none: 3} }} {{ 1, 2 }}
{{ 'a' 'b' "c" }} {{ 'a\'b\n\x41\u00e9\101\q' }} {{ "tab\there" }}
{% for i in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.previtem }}{{ loop.nextitem }} {% endfor %}
{% for i in [] %}x{% else %}none{% endfor %}{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}{% for k in d %}{{ k }}{% endfor %}{% for a, b in [(1,2),[3,4]] %}{{ a }}{{ b }}{% endfor %}
{% for i in l if i > 1 %}{{ i }}{{ loop.index }}{{ loop.length }} {% else %}none{% endfor %}{% for i in l if i > 9 %}x{% else %}none{% endfor %}
{% for i in [1,2] %}{% for j in [1,2] %}{{ loop.index }}{% endfor %}{{ loop.index }}{% endfor %}
{% set x = 1 %}{% for i in l %}{% set x = x + i %}{{ x }} {% endfor %}{{ x }}{% if true %}{% set x = 5 %}{% endif %}{{ x }}
{% set ns = namespace(x=0, y='a') %}{% for i in l %}{% set ns.x = ns.x + i %}{% endfor %}{{ ns.x }}{{ ns.y }}{{ ns.q }}
{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set c %}block {{ a }}{% endset %}{{ c }}{% set t2 = 1, 2 %}{{ t2 }}
{% macro m(a, b=2, c=a) %}[{{ a }}{{ b }}{{ c }}]{% endmacro %}{{ m(1) }}{{ m(1, 3) }}{{ m(1, c=4) }}{{ m() }}{{ m(b=5, a=6) }}
{% set x = 1 %}{% macro m() %}{{ x }}{% endmacro %}{% set x = 2 %}{{ m() }}{% macro f(n) %}{{ n }}{% if n > 0 %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(3) }}
{% macro box(t) %}<{{ t }}>{{ caller() }}</{{ t }}>{% endmacro %}{% call box('b') %}in {{ n }}{% endcall %}{% macro each(l) %}{% for i in l %}{{ caller(i) }}{% endfor %}{% endmacro %}{% call(x) each(l) %}({{ x }}){% endcall %}
{% for i in [1,2,3,4] %}{% if i == 2 %}{% continue %}{% endif %}{% if i == 4 %}{% break %}{% endif %}{{ i }}{% endfor %}
a {#- comment -#} b {# c #} d
x  {%- if true -%}  y  {%- endif -%}  z
x {{- 1 -}} y {{ 2 -}}   z {{- 3 }} w
{{ undef }}{{ no.x }}{{ no['x'] }}|{{ s.nope }}|{{ l.nope }}|{{ n.nope }}
{{ dict(a=1, b=2) }}{{ dict(d, z=1) | length }}{{ {'a': 1}.a }}{{ {'a': {'b': [1, {'c': 2}]}}.a.b[1].c }}
{{ dict(z=1, a=2) }}{{ dict(wild, b=3, a=4) }}{{ {'z': 1, 'a': 2, 'z': 3} }}{% set ns = namespace(z=1, a=2) %}{{ ns.z }}
{{ wild }}{{ wild | list }}{{ wild.keys() | join }}{{ wild.values() | list }}{{ wild | items | list }}{{ wild | tojson }}{{ wild | tojson(indent=1, sort_keys=true) }}{{ wild | dictsort }}{{ wild | first }}{{ wild | length }}{% for k, v in wild.items() %}{{ k }}{{ loop.last }}{% endfor %}
{{ dict(a=1, a=2) }}
{% macro q(a, b) %}{{ a }}{{ b }}{% endmacro %}{{ q(*[1, 2]) }}
{{ (1, 2)[0] }}{{ (l | first) + 1 }}{{ l | length - 1 }}{{ s | length > 3 and true }}{{ "a" if s is defined and s is not none else "b" }}{{ not (s is string and n is string) }}
{{ lo[0].r }}{{ lo[0]['r'] }}{{ lo.0.r }}{{ lo | map(attribute='r') | join(',') }}{{ (lo | first).n }}
{{ big }}{{ big + 1 }}{{ 1_000 }}{{ 1.5e3 }}
{{ s.split()[0] ~ '!' }}{{ (s ~ '!').upper() }}{{ s.replace('o', '0') | lower }}{{ "a" < "B" }}
{% if not undef %}u{% elif true %}v{% else %}w{% endif %}{% if z %}a{% elif e %}b{% else %}c{% endif %}
{% for x in "abc" %}{{ x }}{{ "," if not loop.last }}{% endfor %}{% for x in undef %}{% endfor %}
{{ strftime_now('%Y') }}{{ raise_exception is defined }}{{ s | safe }}{{ l | list | string }}
{{ 1 + "a" }}
{{ no + "a" }}
{{ undef + "a" }}
{{ undef.x }}
{{ undef() }}
{{ s() }}
{{ l < s }}
{{ 1 / 0 }}
{{ s | nofilter }}
{{ s is notest }}
{% nosuchtag %}
{{ raise_exception("no!") }}
{% for i in 5 %}{% endfor %}
{{ "a" in 5 }}
{{ l.append(1) }}
{{ range(1000000) | list }}
{% set s.x = 1 %}
{{ m(1 }}
{{ "unclosed }}
{% if true %}
{{ 'a' | int + 'b' }}
{% macro q(a) %}{% endmacro %}{{ q(1, 2) }}
{% macro q(a) %}{% endmacro %}{{ q(z=2) }}
{% break %}
{{ -s }}
{{ [1,2] | sort(attribute='x') | first.y }}
{{ no | length }}
{{ ['a', 1] | sort }}
{{ {'a':1} + 1 }}
{% set a, b = [1] %}
{{ }}
'''

BLOCKS = [
    "{% if true %}\n  a\n{% endif %}\n  b\n",
    "  {% if true %}\n  a\n  {% endif %}\nb",
    "x\n  {# c #}  \ny",
    "x\n  {# c #}\ny\n\n",
    "a\r\nb\rc {{ n }}\r\n",
    "{%- for i in l %}\n\n  {{- i }}\n {%- endfor %}\n\nend\n",
    "  {%+ if true %}a{% endif +%}\nb",
    "{{ 'a' }}\n{% set x = 1 %}\n{{ x }}\n",
    "{% set x %}\n a\n{% endset %}[{{ x }}]",
    "a\n\t {% if t -%}\n b \n{%- endif %}\n c",
    "{{ n }}   \n   {% if t %}   \n{% endif %}",
    "{{\n  n\n  + 1\n}}",
    "{% if t %}\n{% if t %}\nx\n{% endif %}\n{% endif %}\n",
    "\n\n{{ n }}\n\n",
    "{#- a -#}\n x",
]


def write(name, value):
    (HERE / name).write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n")


cases = []
for path in sorted(HERE.glob("*.jinja")):
    for name, messages in CONVERSATIONS.items():
        for prompt in (False, True):
            variables = {"messages": messages, "tools": TOOLS.get(name), "add_generation_prompt": prompt, "bos_token": "<s>", "eos_token": "</s>"}
            got = render(path.read_text(), variables)
            cases.append({"template": path.name, "conversation": name, "generation_prompt": prompt, **got})
write("conversations.json", {"conversations": CONVERSATIONS, "tools": TOOLS, "cases": cases})

cases = [{"template": t, **render(t, VARIABLES)} for t in LINES.split("\n") + BLOCKS if t]
write("expressions.json", {"variables": VARIABLES, "cases": cases})
