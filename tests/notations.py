"""Small treebanks in every notation, with their trees. All sentences are made up."""

from __future__ import annotations

from sapwood.corpora.tree import Tree

PENN = "( (S (NP-SBJ-1 (DT the) (NN cook)) (VP (VBZ sings) (NP (-NONE- *T*-1))) (. .)) )\n"

EXPORT = """\
%% made up
#FORMAT 4
#BOT ORIGIN
0\tnowhere
#EOT ORIGIN
%% word\tlemma\ttag\tmorph\tedge\tparent
#BOS 1 1 1 1 %% the first
Heute\t\theute\tADV\t--\tMO\t501
singt\tsingen\tVVFIN\t3.Sg\tHD\t501\tSB\t500 %% a secondary edge
,\t--\t$,\t--\t--\t0
wer\twer\tPWS\t--\tSB\t500
(\t--\t$(\t--\t--\t0
gern\tgern\tADV\t--\tMO\t500
)\t--\t$(\t--\t--\t0
kocht\tkochen\tVVFIN\t--\tHD\t500
.\t--\t$.\t--\t--\t0
#500\t--\tR-SIMPX\t--\tSB\t501
#501\t--\tS\t--\t--\t0
#EOS 1
"""
EXPORT_TREE = (
    "(VROOT (S (ADV Heute) (VVFIN singt) ($, ,) (R_SIMPX (PWS wer) ($-LRB- -LRB-) (ADV gern)"
    " ($-LRB- -RRB-) (VVFIN kocht))) ($. .))"
)
EXPORT_FUNCTIONS = (
    "(VROOT (S (ADV-MO Heute) (VVFIN-HD singt) ($, ,) (R_SIMPX-SB (PWS-SB wer) ($-LRB- -LRB-)"
    " (ADV-MO gern) ($-LRB- -RRB-) (VVFIN-HD kocht))) ($. .))"
)
# The object of an embedded verb stands before the verb of the sentence.
GAP = """\
#BOS 2
Brot\tNN\t--\tOA\t500
hat\tVAFIN\t--\tHD\t501
sie\tPPER\t--\tSB\t501
gebacken\tVVPP\t--\tHD\t500
#500\tVP\t--\tOC\t501
#501\tS\t--\t--\t0
#EOS 2
"""

TIGER = """\
<?xml version="1.0" encoding="UTF-8" standalone="yes"?>
<corpus id="made-up"><head><meta><name>x</name></meta></head><body>
<s id="s1"><graph root="s1_VROOT" discontinuous="true">
 <terminals>
  <t id="s1_1" word="Brot" lemma="Brot" pos="NN" morph="--"/>
  <t id="s1_2" word="," pos="$,"/>
  <t id="s1_3" word="10 000" pos="CARD"><secedge label="HD" idref="s1_1"/></t>
  <t id="s1_4" word="(" pos="$("/>
 </terminals>
 <nonterminals>
  <nt id="s1_500" cat="NP"><edge label="NK" idref="s1_1"/><edge label="NK" idref="s1_3"/></nt>
  <nt id="s1_VROOT" cat="VROOT"><edge label="--" idref="s1_500"/>
   <edge label="--" idref="s1_2"/><edge label="--" idref="s1_4"/></nt>
 </nonterminals></graph></s>
</body></corpus>
"""
TIGER_TREE = "(VROOT (NP (NN Brot) ($, ,) (CARD 10_000)) ($-LRB- -LRB-))"

SINICA = """\
#1:1.[0] S(agent:NP(Head:Nh:廚師)|manner:Dh:慢慢|Head:VC:煮\
|goal:NP(quantifier:DM:三碗|Head:Na:麵))#\N{FULLWIDTH COMMA}(COMMACATEGORY)
#2:1.[0] VP(Head:VA:唱歌|particle:Ta:了)
"""
SINICA_TREES = [
    "( (S (NP (Nh 廚師)) (Dh 慢慢) (VC 煮) (NP (DM 三碗) (Na 麵)))"
    " (COMMACATEGORY \N{FULLWIDTH COMMA}))",
    "(VP (VA 唱歌) (Ta 了))",
]
SINICA_ROLES = [
    "( (S (NP-agent (Nh-Head 廚師)) (Dh-manner 慢慢) (VC-Head 煮)"
    " (NP-goal (DM-quantifier 三碗) (Na-Head 麵))) (COMMACATEGORY \N{FULLWIDTH COMMA}))",
    "(VP (VA-Head 唱歌) (Ta-particle 了))",
]

FLORESTA = """\
#12 made up
(STA+fcl (SUBJ+np (>N+art O) (H+n padeiro)) (P+v-fin canta)
 (--) (() (ADVL+adv hoje) ()) (N</ADVL[-1]+pp (H+prp em) (P<+n casa)) (»\") (...))
"""
FLORESTA_TREE = (
    "(fcl (np (art O) (n padeiro)) (v-fin canta) (-- --) (-LRB- -LRB-) (adv hoje) (-RRB- -RRB-)"
    ' (pp (prp em) (n casa)) (»" »") (... ...))'
)
CESS = """\
(S
  (sn-SUJ (da0ms0 El el) (ncms000 panadero panadero))
  (grup.verb (vmip3s0 canta cantar) (rg bien bien))
  (sn.e-SUJ *0*)
  (,)
  (Fp . .))
"""
CESS_TREE = (
    "(S (sn-SUJ (da0ms0 El) (ncms000 panadero)) (grup.verb (vmip3s0 canta) (rg bien))"
    " (sn.e-SUJ *0*) (, ,) (Fp .))"
)
LEMMAS = """\
/* a block (with
a bracket */
( (IP-MAT (NP-SBJ (N-N bakari-bakari)) (CODE <P_3>) (VBPI syngur-syngja)
\t(CP-REL (C 0) (IP-SUB (NP-SBJ *T*-1))) (. .-.))
  (ID 1900.MADE.UP,.1))

( (CODE <P_4>) (ID 1900.MADE.UP,.2))
"""
LEMMAS_TREE = (
    "(IP-MAT (NP-SBJ (N-N bakari)) (VBPI syngur) (CP-REL (C 0) (IP-SUB (NP-SBJ *T*-1))) (. .))"
)
HISTORICAL = """\
( (CODE {COM:a_note})
  (IP-MAT (NP-SBJ (PRO$ my) (N mother-in-law)) (VBD sang) (. .))
  (ID MADEUP-E1-H,7.1))
"""
HISTORICAL_TREE = "(IP-MAT (NP-SBJ (PRO$ my) (N mother-in-law)) (VBD sang) (. .))"
JOINED = "(S (NP (NN ice cream)) (VP (VBZ melts)))\n"
JOINED_TREE = "(S (NP (NN ice_cream)) (VP (VBZ melts)))"
NUMBERED = "(S (NP (DT 0=the) (NN 1=cook)) (VP (VBZ 2=sings)))\n"
NUMBERED_TREE = "(S (NP (DT the) (NN cook)) (VP (VBZ sings)))"

# name of the format: a text, and its trees
EXAMPLES = {
    "penn": (PENN, [str(Tree.parse(PENN))]),
    "export": (EXPORT, [EXPORT_TREE]),
    "tigerxml": (TIGER, [TIGER_TREE]),
    "sinica": (SINICA, SINICA_TREES),
    "floresta": (FLORESTA, [FLORESTA_TREE]),
    "cess": (CESS, [CESS_TREE]),
    "psd-lemmas": (LEMMAS, [LEMMAS_TREE]),
    "psd": (HISTORICAL, [HISTORICAL_TREE]),
    "discbracket": (NUMBERED, [NUMBERED_TREE]),
}
# Formats that must be asked for: their texts begin like those of another.
UNRECOGNISED = {"joined": (JOINED, [JOINED_TREE])}
