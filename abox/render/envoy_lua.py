"""What Envoy's routes can't say, in Lua: shapes of names, normal paths, agreement of names.

The scripts are constants: nothing of a policy enters them. They only mark the request; whether it
passes is decided by the routes, and every route that allows something asks for the mark. A script
that fails leaves no mark, so the request is denied.
"""

from __future__ import annotations

from abox.name_shape import WILDCARD_NAME_MAX

MARK = "x-abox-judged"
"""Request header with the script's finding: a kind of request, or the reason of a denial."""
PORT = "x-abox-port"
"""Request header with the destination port that the routes match."""
PATH = "x-abox-path"
"""Request header with the path in normal form, absent if it has none."""
NAME = "x-abox-name"
"""Request header with the host name, set only if it has the shape of a name."""

LONG = "x-abox-long"
"""Request header that is there if the name is longer than what a wildcard covers."""

TARGET = "x-abox-target"
"""Request header with host and port as every reader must see them, for what leads to an origin."""
PART = "x-abox-part"
"""Request header with the host's part, by which the gate tells many names apart."""

PRIVATE_HEADERS = (MARK, PORT, PATH, NAME, LONG, TARGET, PART)
"""Never taken from an agent, never sent to an origin."""

KIND_HTTP = "http"
KIND_CONNECT = "connect"
KIND_TLS = "tls"

REFUSED_SWITCH = 599
"""Status that the script gives a response which must not reach the agent."""

CONNECT_STATE = "abox.connect"
"""Filter state with host and port that were asked for, shared with what the request leads to."""
CONNECT_NAME_STATE = "abox.connect_name"
"""Filter state with the host name alone."""
PORT_STATE = "abox.port"
"""Filter state with the port alone."""
PART_STATE = "abox.part"
"""Filter state with the host's part."""

_COMMON = r"""
local function name_shape(name)
  if #name > 253 or string.find(name, "[^a-z0-9.-]") or not string.find(name, "%.%l[%l%d-]*$")
      or string.sub(name, -1) == "-" then return false end
  for label in string.gmatch(name .. ".", "([^.]*)%.") do
    if #label < 1 or #label > 63 then return false end
  end
  return true
end

local function octet(text)
  return (text == "0" or string.find(text, "^[1-9]%d?%d?$")) and tonumber(text) <= 255
end

local function literal_v4(name)
  local a, b, c, d = string.match(name, "^(%d+)%.(%d+)%.(%d+)%.(%d+)$")
  return a and octet(a) and octet(b) and octet(c) and octet(d)
end

local function literal(name)
  return literal_v4(name) or string.find(name, "^%[[%x:.]+%]$")
end

local function number_like(name)
  local last = string.match(name, "([^.]*)%.?$")
  return string.find(last, "^%d+$") or string.find(last, "^0[xX]%x*$")
end

-- Host and port of an authority; nil if two readers could disagree about it.
local function split(authority, default_port)
  local name, port = string.match(authority, "^(%[[%x:.]+%]):?(%d*)$")
  if not name then name, port = string.match(authority, "^([^:%[%]]+):?(%d*)$") end
  if not name then return nil end
  if string.sub(authority, -1) == ":" then return nil end
  if port == "" then port = default_port end
  if not port or not string.find(port, "^[1-9]%d?%d?%d?%d?$") or tonumber(port) > 65535 then
    return nil
  end
  return name, port
end

local function looks_like_address(name)
  return string.sub(name, 1, 1) == "[" or number_like(name)
end

local UNRESERVED = "[%w%-._~]"

local function decode(path)
  local out, at = {}, 1
  while true do
    local found = string.find(path, "%", at, true)
    if not found then out[#out + 1] = string.sub(path, at) break end
    out[#out + 1] = string.sub(path, at, found - 1)
    local hex = string.match(path, "^%%(%x%x)", found)
    if not hex then return nil end
    local code = tonumber(hex, 16)
    local char = string.char(code)
    if string.find(char, UNRESERVED) then
      out[#out + 1] = char
    elseif code < 32 or code == 127 or string.find(char, "[/\\;?#]") then
      return nil
    else
      out[#out + 1] = "%" .. string.upper(hex)
    end
    at = found + 3
  end
  local decoded = table.concat(out)
  if string.find(decoded, "%%25%x%x") then return nil end
  return decoded
end

-- The same form as abox/paths.py gives; nil where servers are known to read a path differently.
local function normal_path(path)
  local bare = string.match(path, "^[^?]*")
  if string.sub(bare, 1, 1) ~= "/" or string.find(bare, "[^!-~]") or string.find(bare, "[\\#]") then
    return nil
  end
  if not string.find(bare, "%", 1, true) and not string.find(bare, "//", 1, true)
      and not string.find(bare, "/.", 1, true) and not string.find(bare, ";", 1, true) then
    return bare
  end
  local decoded = decode(bare)
  if not decoded then return nil end
  local segments = {}
  for segment in string.gmatch(string.sub(decoded, 2) .. "/", "([^/]*)/") do
    segments[#segments + 1] = segment
  end
  local kept = {}
  for index, segment in ipairs(segments) do
    if segment == "" and index < #segments then return nil end
    local before = string.match(segment, "^(%.%.?);")
    if before then return nil end
    if segment == ".." then
      kept[#kept] = nil
    elseif segment ~= "." then
      kept[#kept + 1] = segment
    end
  end
  local last = segments[#segments]
  if last == "." or last == ".." then kept[#kept + 1] = "" end
  return "/" .. table.concat(kept, "/")
end

local HOP_BY_HOP = {
  "proxy-authorization", "proxy-connection", "proxy-authenticate", "keep-alive", "http2-settings",
}

-- Fields that end at this hop (RFC 9110, 7.6.1), those that Connection names included.
local function drop_hop_fields(headers)
  local connection, upgrades = headers:get("connection"), false
  if connection then
    for field in string.gmatch(connection, "[^%s,]+") do
      local key = string.lower(field)
      if key ~= "upgrade" and key ~= "close" and key ~= "keep-alive" and key ~= "host"
          and key ~= "content-length" and key ~= "transfer-encoding" and key ~= "te"
          and string.sub(key, 1, 1) ~= ":" and string.sub(key, 1, 7) ~= "x-abox-" then
        headers:remove(key)
      end
      if key == "upgrade" then upgrades = true end
    end
    -- The next hop would take off what is named here, a secret that is put on later included.
    if upgrades then headers:replace("connection", "upgrade") end
  end
  for _, key in ipairs(HOP_BY_HOP) do headers:remove(key) end
end

-- HTTP/2 carries bytes that no request line of HTTP/1.1 can hold.
local function odd_line(headers)
  local path, method = headers:get(":path") or "", headers:get(":method") or ""
  return string.find(path, "[^!-~]") or string.find(method, "[^%u%d!#$%%&'*+.^_`|~-]")
end

local function finish(handle, mark, port, name)
  local headers = handle:headers()
  local metadata = handle:streamInfo():dynamicMetadata()
  metadata:set("abox", "mark", mark)
  metadata:set("abox", "name", name or "")
  metadata:set("abox", "port", port or "")
  if port then headers:replace("x-abox-port", port) end
  if name then headers:replace("x-abox-name", name) end
  if name and #name > WILDCARD_NAME_MAX then headers:replace("x-abox-long", "1") end
  headers:replace("x-abox-judged", mark)
  handle:clearRouteCache()
end

local function judge_name(name)
  if name_shape(name) then return nil, name end
  if literal(name) then return nil, nil end
  if looks_like_address(name) then return "address_literal", nil end
  return "malformed_name", nil
end

local function mark_upgrade(handle)
  local upgrade = handle:headers():get("upgrade")
  if upgrade then
    handle:streamInfo():dynamicMetadata():set("abox", "upgrade", string.lower(upgrade))
  end
end

local function mark_path(handle)
  local path = normal_path(handle:headers():get(":path") or "")
  if path then handle:headers():replace("x-abox-path", path) end
end
""".replace("WILDCARD_NAME_MAX", str(WILDCARD_NAME_MAX))

_RESPONSE = r"""
-- A switch of protocols that nobody asked for would be a tunnel without a verdict. The script can't
-- answer here; it sets a status for which the next filter has an answer of its own.
function envoy_on_response(handle)
  if handle:headers():get(":status") ~= "101" then return end
  local found = handle:streamInfo():dynamicMetadata():get("abox")
  if found and found["upgrade"] == "websocket" then return end
  handle:headers():replace(":status", "599")
end
"""

_PART = r"""
local function binary(number)
  local digits = {}
  for place = 8, 1, -1 do
    digits[place] = number % 2
    number = math.floor(number / 2)
  end
  return table.concat(digits)
end

local PARTS = {}
for number = 0, 255 do PARTS[number] = binary(number) end

-- The same hash as abox/gates.py has.
local function part_of(name)
  local found = 0
  for at = 1, #name do found = (found * 31 + string.byte(name, at)) % 16777213 end
  return PARTS[found % 256]
end
"""

OUTER_SCRIPT = (
    _COMMON
    + _PART
    + r"""
function envoy_on_request(handle)
  local headers = handle:headers()
  local connect = headers:get(":method") == "CONNECT"
  local authority = string.lower(headers:get(":authority") or "")
  local name, port = split(authority, not connect and "80" or nil)
  if not name then return finish(handle, "malformed_name") end
  local denial, shown = judge_name(name)
  if denial then return finish(handle, denial, port, shown) end
  if not connect and headers:get(":scheme") ~= "http" then
    return finish(handle, "not_tls", port, shown)
  end
  if odd_line(headers) then return finish(handle, "malformed_request", port, shown) end
  headers:replace(":authority", authority)
  drop_hop_fields(headers)
  if not connect then mark_path(handle) mark_upgrade(handle) end
  headers:replace("x-abox-target", name .. ":" .. port)
  headers:replace("x-abox-part", part_of(name))
  finish(handle, connect and "connect" or "http", port, shown)
end
"""
    + _RESPONSE
)
"""Requests on the proxy port: absolute-form and CONNECT."""

INNER_SCRIPT = (
    _COMMON
    + r"""
local function agreed(handle, name, port)
  local state = handle:streamInfo():filterState():get("abox.connect")
  if not state or name .. ":" .. port ~= state then return false end
  local server_name = string.lower(handle:streamInfo():requestedServerName() or "")
  if server_name == name then return true end
  return server_name == "" and literal(name)
end

function envoy_on_request(handle)
  local headers = handle:headers()
  local authority = string.lower(headers:get(":authority") or "")
  local name, port = split(authority, "443")
  if not name then return finish(handle, "malformed_name") end
  name = string.gsub(name, "%.$", "")
  local denial, shown = judge_name(name)
  if denial then return finish(handle, denial, port, shown) end
  if not agreed(handle, name, port) then return finish(handle, "name_mismatch", port, shown) end
  if odd_line(headers) then return finish(handle, "malformed_request", port, shown) end
  headers:replace(":authority", authority)
  drop_hop_fields(headers)
  mark_path(handle)
  mark_upgrade(handle)
  finish(handle, "tls", port, shown)
end
"""
    + _RESPONSE
)
"""Requests inside an intercepted tunnel."""

PLAIN_SCRIPT = (
    _COMMON
    + r"""
function envoy_on_request(handle)
  local headers = handle:headers()
  local authority = string.lower(headers:get(":authority") or "")
  local name, port = split(authority, "80")
  local nested = headers:get(":method") == "CONNECT"
  if not name or nested then return finish(handle, "malformed_name") end
  local denial, shown = judge_name(name)
  if denial then return finish(handle, denial, port, shown) end
  local state = handle:streamInfo():filterState():get("abox.connect")
  if not state or name .. ":" .. port ~= state then
    return finish(handle, "name_mismatch", port, shown)
  end
  if port == "443" then
    handle:streamInfo():drainConnectionUponCompletion()
    return finish(handle, "not_tls", port, shown)
  end
  if odd_line(headers) then return finish(handle, "malformed_request", port, shown) end
  headers:replace(":authority", authority)
  drop_hop_fields(headers)
  mark_path(handle)
  mark_upgrade(handle)
  finish(handle, "http", port, shown)
end
"""
    + _RESPONSE
)
"""Requests in the clear inside a tunnel, as Node and WebSocket clients send them to port 80."""

DIAL_SCRIPT = (
    _COMMON
    + r"""
function envoy_on_request(handle)
  local authority = string.lower(handle:headers():get(":authority") or "")
  local name, port = split(authority, nil)
  if not name then return finish(handle, "malformed_name") end
  local denial, shown = judge_name(name)
  if denial then return finish(handle, denial, port, shown) end
  finish(handle, "connect", port, shown)
end
"""
)
"""The last step of a tunnel that isn't intercepted."""
